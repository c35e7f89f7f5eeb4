"""What happens when: Gantt, memory, the critical path and why it is that long."""
