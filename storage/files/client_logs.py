"""Logs of stores' clients: what shows secrets is not said because all of a program is debugged.

At DEBUG some clients log each request as they sign or send it, session tokens with it. So their
loggers say no more than INFO, unless a person gives them a level of their own.
"""

from __future__ import annotations

import logging

# Loggers by the protocol whose client uses them. Those of Azure and Google, tried at DEBUG, leave
# out keys, signatures and tokens; theirs are kept quiet too, as nothing promises that.
_TALKATIVE = {
    "s3": ("botocore", "aiobotocore", "boto3"),
    "gs": ("gcsfs", "google"),
    "abfs": ("azure", "msal"),
    "webhdfs": ("urllib3",),
    "sftp": ("paramiko",),
    "ssh": ("paramiko",),
}


def keep_secrets_out(protocol: str) -> None:
    """Let the loggers of a client leave out what they say of each request at DEBUG."""
    for name in _TALKATIVE.get(protocol, ()):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
