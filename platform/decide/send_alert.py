"""Sends a text to the webhook and by mail, as a policy says; no secret stands in what it answers.

Dagster's own mail sensors know failed runs alone, and take their password in the definitions.
"""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping
from email.message import EmailMessage
from functools import partial
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from lakewright.platform.tables.upkeep_policies import AlertPolicy

# A tick of a sensor has 60 s for all that it does.
_TIMEOUT_S = 5
_PORTS = {"smtp": 587, "smtps": 465}


def send_alert(
    policy: AlertPolicy, title: str, text: str, environment: Mapping[str, str]
) -> tuple[bool, list[str]]:
    """Whether the webhook or the mail server took the text, and what was in the way of others."""
    sent, problems = False, []
    for variable, send in _channels(policy):
        name = variable.strip("${}")
        address = environment.get(name)
        if not address:
            problems.append(f"no alert is sent to {variable}: the environment has no {name}")
            continue
        try:
            send(address, title, text)
            sent = True
        except (OSError, ValueError, HTTPException, smtplib.SMTPException) as error:
            # The text of an error may have the address, and so the secret in it.
            told = f"HTTP {error.code}" if isinstance(error, HTTPError) else type(error).__name__
            problems.append(f"{variable} did not take an alert: {told}")
    return sent, problems


def _channels(policy: AlertPolicy) -> Iterator[tuple[str, Callable[[str, str, str], None]]]:
    if policy.webhook is not None:
        yield policy.webhook, _post
    if policy.mail_server is not None:
        yield policy.mail_server, partial(_mail, policy)


def _post(url: str, title: str, text: str) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("no URL of a webhook")
    # Slack takes these for markup, such as a mention of all members.
    for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        title, text = title.replace(sign, escaped), text.replace(sign, escaped)
    body = json.dumps({"text": f"{title}\n{text}"}).encode()
    request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310 - checked above
        pass


def _mail(policy: AlertPolicy, url: str, title: str, text: str) -> None:
    server = urlsplit(url)
    if server.scheme not in _PORTS or server.hostname is None:
        raise ValueError("no URL of a mail server")
    message = EmailMessage()
    message["Subject"], message["From"] = title, policy.mail_from
    message["To"] = ", ".join(policy.mail_to)
    message.set_content(text)
    host, port = server.hostname, server.port or _PORTS[server.scheme]
    context = ssl.create_default_context()
    with (
        smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT_S, context=context)
        if server.scheme == "smtps"
        else smtplib.SMTP(host, port, timeout=_TIMEOUT_S)
    ) as connection:
        if server.username is not None:
            if server.scheme == "smtp":
                # A password goes over no open line.
                connection.starttls(context=context)
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(message)
