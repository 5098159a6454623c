"""Signals that processes of a test are to heed, whatever a library told this process."""

from __future__ import annotations

import signal


def heed_signals() -> None:
    """Let processes that start from now on be interrupted and terminated by signals."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, signal.SIG_DFL)
