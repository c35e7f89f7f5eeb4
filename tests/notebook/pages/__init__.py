"""The widget in a browser: on a page with a strict policy, in JupyterLab, Jupyter Notebook and marimo."""
