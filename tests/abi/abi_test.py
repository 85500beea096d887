"""What libnax.so shows to the world: exactly the functions that the public headers declare, in clean C11 and C++17.

Usage: abi_test.py LIBRARY INCLUDE_FOLDER NM CC CXX
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, INCLUDE, NM, CC, CXX = sys.argv[1:6]
HEADERS = sorted(p.relative_to(INCLUDE).as_posix() for p in Path(INCLUDE).glob("nax/*.h"))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror", "-I", INCLUDE]


def declared_functions():
    """Names of the functions marked NAX_API."""
    names = set()
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", Path(INCLUDE, header).read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        for declaration in re.findall(r"\bNAX_API\b([^;]*);", text):
            names.update(re.findall(r"\b(nax_\w+)\s*\(", declaration)[:1])
    return names


def exported_symbols():
    """(type letter, name) of each dynamic symbol that others could bind to: upper case is global, u UNIQUE, v, w weak, i
    indirect; other lower-case letters are local."""
    out = subprocess.run([NM, "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    symbols = [(line.split()[-2], line.split()[-1].split("@")[0]) for line in out.splitlines()]
    return [(kind, name) for kind, name in symbols if kind.isupper() or kind in "uvwi"]


def compile_text(compiler, options, text, suffix, libraries=()):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "use" + suffix)
        source.write_text(text)
        return subprocess.run([compiler, *options, str(source), *libraries, "-o", str(Path(folder, "out"))],
                              capture_output=True, text=True)


class AbiTest(unittest.TestCase):
    def test_exports_are_the_declared_functions(self):
        declared = declared_functions()
        self.assertIn("nax_status_code", declared)
        exported = {name for _, name in exported_symbols()}
        self.assertEqual(sorted(exported - declared), [], "exported but in no public header")
        self.assertEqual(sorted(declared - exported), [], "declared but not exported")

    def test_no_unique_symbol(self):
        # A UNIQUE symbol would be shared with every other library of the process and pin this one in memory.
        self.assertEqual([name for kind, name in exported_symbols() if kind == "u"], [])

    def test_headers_stand_alone_and_may_come_twice(self):
        for header in HEADERS:
            text = f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
            for compiler, standard, suffix in ((CC, "-std=c11", ".c"), (CXX, "-std=c++17", ".cpp")):
                options = [o for o in STRICT if suffix == ".c" or o != "-Wstrict-prototypes"]
                with self.subTest(header=header, standard=standard):
                    done = compile_text(compiler, [standard, *options], text, suffix)
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_c_program_links_to_every_function(self):
        uses = "\n".join(f"  pointer = (function)&{name}; sum += pointer != 0;" for name in sorted(declared_functions()))
        includes = "\n".join(f"#include <{header}>" for header in HEADERS)
        text = (f"{includes}\ntypedef void (*function)(void);\nint main(void) {{\n  volatile function pointer;\n"
                f"  int sum = 0;\n{uses}\n  return sum == 0;\n}}\n")
        folder = str(Path(LIBRARY).parent)
        done = compile_text(CC, ["-std=c11", "-I", INCLUDE], text, ".c", [LIBRARY, f"-Wl,-rpath,{folder}"])
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
