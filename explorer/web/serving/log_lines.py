"""What strangers send is no defect: the server's log says it in a line, without a traceback."""

from __future__ import annotations

import logging


class StrangersWords(logging.Filter):
    """For the log of uvicorn, which tells of a message that is no UTF-8 as of an error of its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], UnicodeError):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True
