"""Commands that have subcommands: what HELP answers, and errors in the words of Redis."""

from typing import Final

from thence.store.reply import Fail

SUBCOMMANDS: Final = {
    "CLIENT": (
        "GETNAME", "GETREDIR", "ID", "INFO", "KILL <address> | <filter> <value> ...",
        "LIST [TYPE normal] [ID <id> ...]", "NO-EVICT (ON|OFF)", "NO-TOUCH (ON|OFF)",
        "PAUSE <milliseconds> [WRITE|ALL]", "REPLY (ON|OFF|SKIP)", "SETINFO <option> <value>",
        "SETNAME <name>", "TRACKINGINFO", "UNBLOCK <id> [TIMEOUT|ERROR]", "UNPAUSE",
    ),
    "COMMAND": (
        "(none)", "COUNT", "DOCS [<name> ...]", "GETKEYS <command>", "INFO [<name> ...]",
        "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
    ),
    "CONFIG": ("GET <pattern> ...", "RESETSTAT", "REWRITE", "SET <name> <value> ..."),
    "FUNCTION": ("FLUSH [ASYNC|SYNC]", "LIST [LIBRARYNAME <pattern>] [WITHCODE]", "STATS"),
    "LATENCY": ("DOCTOR", "HISTOGRAM [<command> ...]", "HISTORY <event>", "LATEST", "RESET [<event> ...]"),
    "MEMORY": ("DOCTOR", "MALLOC-STATS", "PURGE", "STATS", "USAGE <key> [SAMPLES <count>]"),
    "MODULE": ("LIST",),
    "OBJECT": ("ENCODING <key>", "FREQ <key>", "IDLETIME <key>", "REFCOUNT <key>"),
    "SLOWLOG": ("GET [<count>]", "LEN", "RESET"),
}  # fmt: skip


def help_or_error(name: str, a: list[bytes]) -> list[str]:
    """A subcommand that has no other meaning here: help, or an error."""
    word = a[0].decode(errors="surrogateescape")
    known = {line.split()[0] for line in SUBCOMMANDS[name]} | {"HELP"}
    if word.upper() not in known:
        raise Fail(f"ERR unknown subcommand '{word}'. Try {name} HELP.")
    if word.upper() != "HELP" or len(a) > 1:
        raise Fail(f"ERR wrong number of arguments for '{name.lower()}|{word.lower()}' command")
    return [
        f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", *SUBCOMMANDS[name],
        "HELP", "    Prints this help.",
    ]  # fmt: skip
