"""The lint on tiny trees: each broken tree must give exactly the problem it was built for."""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from lint import Lint  # noqa: E402

GUARD = "#pragma once\n"
GOOD = {
    "device/base/status.h": GUARD + "#include <string>\n",
    "device/base/hash.cpp": "#include <xxhash.h>\n",
    "device/isa/program.h": GUARD + '#include "device/base/status.h"\n',
    "device/jit/jit.h": GUARD,
    "device/jit/emit.h": GUARD + "#include <llvm/IR/Module.h>\n",
    "device/pool/pool.cpp": "#include <tbb/task_arena.h>\n",
    "fusion/graph.h": GUARD + '#include "device/isa/program.h"\n',
    "runtime/stream.cpp": '#include "fusion/graph.h"\n#include "device/jit/jit.h"\n',
    "api/include/nax/nax.h": GUARD,
    "api/torch/device.cpp": '#include <torch/library.h>\n#include "nax/nax.h"\n',
    "examples/c_embed/main.c": "#include <nax/nax.h>\n",
    "tests/device/base/status_test.cpp": '#include "device/base/status.h"\n#include <doctest/doctest.h>\n',
}


class LintTest(unittest.TestCase):
    def problems(self, changes):
        with open(HERE / "layers.toml", "rb") as file:
            table = tomllib.load(file)
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**GOOD, **changes}.items():
                file = Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return Lint(root, table).run()

    def expect(self, changes, path, fragment):
        problems = self.problems(changes)
        self.assertEqual(len(problems), 1, problems)
        self.assertEqual(problems[0][0], path)
        self.assertIn(fragment, problems[0][2])

    def test_good_tree_has_no_problem(self):
        self.assertEqual(self.problems({}), [])

    def test_upward_include(self):
        self.expect({"device/isa/text.cpp": '#include "fusion/graph.h"\n'}, "device/isa/text.cpp",
                    "device/isa may not include fusion/graph.h")

    def test_sideways_include(self):
        self.expect({"cache/key.h": GUARD + '  #  include "device/isa/program.h"\n'}, "cache/key.h",
                    "cache may not include device/isa/program.h")

    def test_runtime_sees_the_front_of_the_jit_only(self):
        self.expect({"runtime/tier.cpp": '#include "device/jit/emit.h"\n'}, "runtime/tier.cpp",
                    "runtime may not include device/jit/emit.h")

    def test_binding_sees_public_headers_only(self):
        self.expect({"api/torch/ops.cpp": '#include "device/base/status.h"\n'}, "api/torch/ops.cpp",
                    "api/torch may not include")

    def test_exclusive_headers(self):
        for path, header in {
            "cache/key.cpp": "xxhash.h",
            "runtime/pool.cpp": "tbb/parallel_for.h",
            "device/queue/pool.cpp": "oneapi/tbb/task_arena.h",
            "fusion/emit.cpp": "llvm/IR/IRBuilder.h",
            "runtime/tensor.cpp": "ATen/ATen.h",
            "api/c/frame.cpp": "Python.h",
            "device/base/self_check.cpp": "doctest/doctest.h",
        }.items():
            with self.subTest(header):
                self.expect({path: f"#include <{header}>\n"}, path, "only ")

    def test_include_cycle(self):
        self.expect({
            "fusion/a.h": GUARD + '#include "fusion/b.h"\n',
            "fusion/b.h": GUARD + '#include "fusion/c.h"\n',
            "fusion/c.h": GUARD + '#include "fusion/a.h"\n',
        }, "fusion/c.h", "include cycle: fusion/a.h -> fusion/b.h -> fusion/c.h -> fusion/a.h")

    def test_header_that_includes_itself(self):
        self.expect({"fusion/a.h": GUARD + '#include "fusion/a.h"\n'}, "fusion/a.h", "include cycle")

    def test_include_not_from_the_root(self):
        self.expect({"fusion/a.cpp": '#include "graph.h"\n'}, "fusion/a.cpp", "not in the tree")

    def test_folder_without_a_rule(self):
        self.expect({"plugins/x.cpp": "int x;\n"}, "plugins/x.cpp", "no folder of the table")

    def test_long_file(self):
        self.assertEqual(self.problems({"fusion/a.cpp": "//\n" * 800}), [])
        self.expect({"fusion/a.cpp": "//\n" * 801}, "fusion/a.cpp", "801 lines")
        self.expect({"api/python/torch_nax/a.py": "#\n" * 801}, "api/python/torch_nax/a.py", "801 lines")

    def test_forbidden_text(self):
        for text in ("/" + "work/data", 'path = "/' + 'root/x"', "(/" + "tmp/bash_jobs/x)", "TO" + "DO: later",
                     "// FIX" + "ME", "pypi" + ".org"):
            with self.subTest(text):
                self.expect({"README.md": "one\n" + text + "\n"}, "README.md", text[:4].strip("/("))

    def test_text_that_only_looks_forbidden(self):
        for text in ("https://example.com/work/x", "the worker/root/node", "/usr/lib/llvm-19", "method_todo", "XXH3"):
            with self.subTest(text):
                self.assertEqual(self.problems({"README.md": text}), [])

    def test_skipped_folders(self):
        self.assertEqual(self.problems({"build/x/a.cpp": '#include "nowhere.h"\n', ".venv/b.py": "#\n" * 900}), [])

    def test_cycle_in_the_table(self):
        table = {"skip": [], "include_roots": [""], "max_lines": 9, "only": {}, "forbidden": {},
                 "folders": {"a": ["b"], "b": ["a"]}}
        with tempfile.TemporaryDirectory() as root:
            problems = Lint(root, table).run()
        self.assertEqual(len(problems), 1)
        self.assertIn("cycle in the table: a -> b -> a", problems[0][2])

    def test_exit_code_and_output(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "fusion").mkdir()
            Path(root, "fusion/a.cpp").write_text('#include "b.h"\n')
            command = [sys.executable, str(HERE / "lint.py"), root]
            bad = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})
            Path(root, "fusion/a.cpp").write_text("int a;\n")
            good = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("fusion/a.cpp:1:", bad.stdout)
        self.assertEqual(good.returncode, 0, good.stdout)


if __name__ == "__main__":
    unittest.main()
