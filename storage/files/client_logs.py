"""Logs of stores' clients: secrets stay out of the log of a program that logs at DEBUG.

At DEBUG some clients log each request with its session token. So their loggers stop at INFO, unless
the user sets a level for them.
"""

from __future__ import annotations

import logging

# Loggers by the protocol of the client. The clients of Azure and Google leave out keys, signatures
# and tokens at DEBUG; their loggers stop at INFO too, since nothing promises that.
_TALKATIVE = {
    "s3": ("botocore", "aiobotocore", "boto3"),
    "gs": ("gcsfs", "google"),
    "abfs": ("azure", "msal"),
    "webhdfs": ("urllib3",),
    "sftp": ("paramiko",),
    "ssh": ("paramiko",),
}


def keep_secrets_out(protocol: str) -> None:
    """Set the loggers of a client to INFO where the user set no level."""
    for name in _TALKATIVE.get(protocol, ()):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
