"""Models of installed libraries, traced one a process: `python -m tests.zoo [NAME ...]` prints a table of Markdown.

Outside the default suite: it needs transformers, timm, torchvision, which this package does not depend on.
"""
