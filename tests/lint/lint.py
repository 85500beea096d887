"""Checks the tree against layers.toml: include direction, cycles, exclusive headers, file sizes, forbidden text.

Usage: lint.py [ROOT [TABLE]]. Prints one line a problem as file:line: what, and exits with 1 if there is any.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

SOURCES = (".h", ".hpp", ".c", ".cc", ".cpp", ".inc")
HAND_WRITTEN = SOURCES + (".py",)
TEXT = HAND_WRITTEN + (".sh", ".cmake", ".md", ".txt", ".json", ".map", ".in", ".yml")
TEXT_NAMES = ("Makefile", "run", ".clang-format", ".clang-tidy", ".gitignore")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Lint:
    """One run over one tree; problems collect in `problems` as (path, line, text)."""

    def __init__(self, root, table):
        self.root = Path(root)
        self.table = table
        self.problems = []
        self.files = sorted(self._walk())
        self.known = set(self.files)

    def run(self):
        self._check_table()
        edges = {}
        for path in self.files:
            name = path.rsplit("/", 1)[-1]
            if not path.endswith(TEXT) and name not in TEXT_NAMES:
                continue
            try:
                lines = (self.root / path).read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError:
                self._report(path, 0, "not UTF-8")
                continue
            if path.endswith(SOURCES):
                edges[path] = self._check_includes(path, lines)
            if path.endswith(HAND_WRITTEN) and len(lines) > self.table["max_lines"]:
                self._report(path, 0, f"{len(lines)} lines, the limit is {self.table['max_lines']}")
            self._check_text(path, lines)
        self._check_cycles(edges, "include cycle")
        return self.problems

    def _walk(self):
        skip = set(self.table["skip"])
        for folder, names, files in os.walk(self.root):
            names[:] = [n for n in names if n not in skip and not n.endswith(".egg-info")]
            for name in files:
                path = Path(folder, name)
                if not path.is_symlink():
                    yield path.relative_to(self.root).as_posix()

    def _report(self, path, line, text):
        self.problems.append((path, line, text))

    def _check_table(self):
        folders = self.table["folders"]
        for folder, allowed in folders.items():
            for other in allowed:
                if not any(under(other, f) or under(f, other) for f in folders):
                    self._report("layers.toml", 0, f"{folder}: {other} is no folder of the table")
        edges = {f: [(self._folder_of(a), 0) for a in allowed if self._folder_of(a)] for f, allowed in folders.items()}
        self._check_cycles(edges, "cycle in the table")

    def _folder_of(self, path):
        matches = [f for f in self.table["folders"] if under(path, f)]
        return max(matches, key=len, default=None)

    def _resolve(self, target):
        for root in self.table["include_roots"]:
            path = f"{root}/{target}" if root else target
            if path in self.known:
                return path
        return None

    def _check_includes(self, path, lines):
        """Reports bad edges of one file and returns all of its edges into the tree as (file, line)."""
        folder = self._folder_of(path)
        if folder is None:
            self._report(path, 0, "lies in no folder of the table")
            return []
        edges = []
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            for pattern, owners in self.table["only"].items():
                if re.match(pattern, target) and not any(under(path, owner) for owner in owners):
                    self._report(path, number, f"only {', '.join(owners)} includes <{target}>")
            resolved = self._resolve(target)
            if resolved is None:
                if quote == '"':
                    self._report(path, number, f'"{target}" is not in the tree (write includes from its root)')
                continue
            edges.append((resolved, number))
            allowed = [folder, *self.table["folders"][folder]]
            if not any(under(resolved, a) for a in allowed):
                self._report(path, number, f"{folder} may not include {resolved}")
        return edges

    def _check_text(self, path, lines):
        for number, line in enumerate(lines, 1):
            for what, pattern in self.table["forbidden"].items():
                if re.search(pattern, line):
                    self._report(path, number, f"{what}: {line.strip()[:80]}")

    def _check_cycles(self, edges, what):
        """Depth-first search without recursion; each cycle is reported once, at the edge that closes it."""
        done, on_path = set(), []
        for start in edges:
            stack = [(start, iter(edges[start]))] if start not in done else []
            on_path = [start] if stack else []
            while stack:
                node, rest = stack[-1]
                for target, number in rest:
                    if target in on_path:
                        loop = on_path[on_path.index(target):] + [target]
                        self._report(node, number, f"{what}: " + " -> ".join(loop))
                    elif target not in done and target in edges:
                        stack.append((target, iter(edges[target])))
                        on_path.append(target)
                        break
                else:
                    done.add(node)
                    stack.pop()
                    on_path.pop()


def under(path, folder):
    return path == folder or path.startswith(folder + "/")


def main(argv):
    here = Path(__file__).resolve().parent
    root = argv[1] if len(argv) > 1 else here.parents[1]
    table = argv[2] if len(argv) > 2 else here / "layers.toml"
    with open(table, "rb") as file:
        lint = Lint(root, tomllib.load(file))
    problems = lint.run()
    for path, line, text in problems:
        print(f"{path}:{line}: {text}")
    print(f"lint: {len(lint.files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
