"""docs/STORE_COMMANDS.md, from the table of commands."""

from thence.store import commands
from thence.store.table import ABSENT, TABLE

_ = commands
HEAD = """# Commands of the store

Made from the table of commands (`python -m thence.store.documented > docs/STORE_COMMANDS.md`); a test keeps
it true. Commands without a remark do on one node what Redis does. What concurrent writes become is in
[STORE.md](STORE.md).
"""


def page() -> str:
    out = [HEAD]
    for group in sorted({one.group for one in TABLE.values()}):
        out.append(f"## {group}\n\n| command | arity | differs |\n| --- | --- | --- |")
        names = sorted(name for name, one in TABLE.items() if one.group == group)
        out += [f"| `{name}` | {TABLE[name].arity} | {TABLE[name].differs} |" for name in names]
        out.append("")
    out.append("## Absent\n\nThey answer as unknown commands.\n")
    out.append("| group | commands | why |\n| --- | --- | --- |")
    for group, (absent, why) in ABSENT.items():
        out.append(f"| {group} | {' '.join(f'`{name}`' for name in absent.split())} | {why} |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(page(), end="")
