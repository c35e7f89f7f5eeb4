"""Graph and Gantt chart as pictures to keep: one list of shapes, written as SVG or painted as PNG."""
