"""Secrets of addresses, commands and messages: shown nowhere, lost nowhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from likewise.addresses import Address, command_line, shown_words, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg://user:secret@host/db", "postgresql+psycopg://user:***@host/db"),
        ("postgresql+psycopg://user:sec@ret@host/db", "postgresql+psycopg://user:***@host/db"),
        ("postgresql+psycopg://user:sec ret/sec:ret@host/db", "postgresql+psycopg://user:***@host/db"),
        ("postgresql+psycopg://:secret@/db?host=/tmp", "postgresql+psycopg://:***@/db?host=/tmp"),
        ("postgresql+psycopg://host/db?user=me&password=secret&port=1", "postgresql+psycopg://host/db?user=me&password=***&port=1"),
        ("postgresql+psycopg://u:secret@host/db?sslpassword=secret", "postgresql+psycopg://u:***@host/db?sslpassword=***"),
        (
            "likewise compare a --store 'postgresql+psycopg://u@host/db?password=sec\"ret' --seeds 2",
            "likewise compare a --store 'postgresql+psycopg://u@host/db?password=***' --seeds 2",
        ),
        ("cannot use \"host=h password='secret' port=1\"", 'cannot use "host=h password=*** port=1"'),
        ("nonsense://user:secret@", "nonsense://user:***@"),
        (
            "https://host/w.pth?X-Amz-Credential=se%2Fcret&X-Amz-Signature=secret&x=1",
            "https://host/w.pth?X-Amz-Credential=***&X-Amz-Signature=***&x=1",
        ),
        ("https://a.host/w.pth?sv=1&sig=se%2Fcret&se=2", "https://a.host/w.pth?sv=1&sig=***&se=2"),
        ("https://host/w.pth?token=secret&access_token=secret", "https://host/w.pth?token=***&access_token=***"),
        ("https://secret@host/w.pth, http://secret@proxy:80", "https://***@host/w.pth, http://***@proxy:80"),
        ("ray://user:secret@host:10001", "ray://user:***@host:10001"),
        ("Authorization: Bearer sec.ret-1", "Authorization: Bearer ***"),
        ("{'user': 'u', 'password': 'sec ret', 'port': 1}", "{'user': 'u', 'password': ***, 'port': 1}"),
        ('{"token": "secret"}', '{"token": ***}'),
        ("PGPASSWORD=secret AWS_SECRET_ACCESS_KEY=secret likewise", "PGPASSWORD=*** AWS_SECRET_ACCESS_KEY=*** likewise"),
        ("likewise serve index --token secret --port 80", "likewise serve index --token *** --port 80"),
        ("likewise serve index --token=secret --port 80", "likewise serve index --token=*** --port 80"),
        ("the password: see http://host:80/a and write to me", "the password: see http://host:80/a and write to me"),
        ("--set sigma=3 tokens=4 design=5", "--set sigma=3 tokens=4 design=5"),
        ("postgresql://user@host/db", "postgresql://user@host/db"),
        ("sqlite:////some/where.sqlite", "sqlite:////some/where.sqlite"),
        ("likewise compare omniglot:/data --set steps=3", "likewise compare omniglot:/data --set steps=3"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_an_address_prints_without_and_connects_whole() -> None:
    address = Address("postgresql://user:secret@host/db")
    sent = pickle.loads(pickle.dumps(address))  # to a worker
    assert sent.whole == "postgresql://user:secret@host/db"
    for shown in (str(address), repr(address), f"{address}", f"{address!s:>40}", "%s" % address, repr([address])):  # noqa: UP031
        assert "secret" not in shown
        assert "postgresql://user:***@host/db" in shown


def test_the_words_of_a_command_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["serve", "index", "--token", "sec ret'", "--store=x://u:sec ret@h/d"]
    assert shown_words(words) == ["serve", "index", "--token", "***", "--store=x://u:***@h/d"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/likewise", *words])
    assert command_line() == "likewise serve index --token '***' '--store=x://u:***@h/d'"


def test_the_list_of_processes_shows_no_secret() -> None:
    script = "import sys; from likewise.addresses import *; hide_in_process_list(sys.argv[1:]); print(sys.argv, flush=True); input()"
    words = ["", "--store", "postgresql://u:secret@h/d", "caf\u00e9", "--token", "secret", "last"]
    with subprocess.Popen([sys.executable, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == f"{['-c', *words]}\n"  # the process itself knows all of it
        place = Path(f"/proc/{process.pid}/cmdline")
        listed = os.fsdecode(place.read_bytes()).split("\0") if place.exists() else []  # only Linux lets a process change it
        process.communicate("\n")
    assert process.returncode == 0
    assert not listed or listed[-8:] == ["", "--store", "postgresql://u:***@h/d***", "caf\u00e9", "--token", "******", "last", ""]
