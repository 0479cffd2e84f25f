"""Units of systemd for the processes of a federation."""

import re
from collections.abc import Sequence
from pathlib import Path

UNIT = """\
# Written by turnout service: write it again after turnout or its files have moved.
[Unit]
Description={description}
Wants=network-online.target
After=network-online.target

[Service]
User={user}
ExecStart={command}
Restart=on-failure
RestartSec=30
# turnout keeps compiled programs there; large messages go to files, which need a disk.
CacheDirectory=%N
CacheDirectoryMode=0700
Environment=XDG_CACHE_HOME=%C/%N TMPDIR=/var/tmp
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
PrivateTmp=yes
ProtectSystem=strict
ReadWritePaths={writable}
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
"""
"""A unit. Memory that is written and executed is not forbidden, nor are devices hidden: compilers and GPUs need both."""

PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)
"""Words that need no quotes."""


def unit(description: str, command: Sequence[str], user: str, writable: Sequence[Path]) -> str:
    """Return a unit that runs a command as an unprivileged user, and starts it again when it fails.

    Args:
        description: What it is.
        command: The absolute path of the program, and its arguments.
        user: Name of the user.
        writable: The folders that the command may write to; all others are read-only.
    """
    return UNIT.format(
        description=description.replace("%", "%%"),
        # A dollar begins the name of a variable, in commands alone.
        command=" ".join(quoted(word).replace("$", "$$") for word in command),
        user=user,
        writable=" ".join(quoted(str(path)) for path in writable),
    )


def quoted(word: str) -> str:
    """Return a word as systemd reads it: in quotes where it has to be, and with no specifiers such as %h.

    Args:
        word: The word.
    """
    if not PLAIN.fullmatch(word):
        word = '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return word.replace("%", "%%")
