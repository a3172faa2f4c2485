#!/usr/bin/env python3
"""What a stranger meets before any code: workflows, issue forms, hooks, the container, the citation. Each file can be read, the
commands that it calls exist, what it fetches has a version, and what it repeats of the tree agrees with the tree.

Needs nothing but Python; where PyYAML happens to be there, it reads the YAML files, too.
"""

import json
import pathlib
import re
import subprocess
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
forms = sorted((root / ".github/ISSUE_TEMPLATE").glob("[0-9]_*.yml"))
workflows = sorted((root / ".github/workflows").glob("*.yml"))
yaml_files = [*forms, *workflows, root / ".github/ISSUE_TEMPLATE/config.yml", root / ".pre-commit-config.yaml", root / "CITATION.cff"]


def text(name):
    return (root / name).read_text()


def driver_commands():
    """Words that ./tenfold takes: the script's own, and those that it hands to the driver."""
    words = set()
    for line in re.findall(r"^  ([a-z][a-z |-]*)\)$", text("tenfold"), flags=re.MULTILINE):
        words.update(word.strip() for word in line.split("|"))
    return words


def setups():
    """What ./tenfold setup takes, but for lessons."""
    return set(re.findall(r"^  ([a-z]+) {2,}\S", re.search(r"usage: ./tenfold setup(.*?)^TEXT", text("common/tools/setup.sh"), re.DOTALL | re.MULTILINE)[1],
                          flags=re.MULTILINE))


def problem_of_command(command):
    """Why a line of a workflow, a hook or a page cannot be called here; empty when it can."""
    words = command.split()
    if words[0] == ".venv/bin/python":
        words = words[1:]
    if not words[0].startswith((".", "common/", "tests/")):
        return ""  # the system's
    if not (root / words[0]).is_file():
        return f"there is no {words[0]}"
    if words[0] == "./tenfold":
        if words[1] not in driver_commands():
            return f"./tenfold has no command {words[1]}"
        if words[1] == "setup" and len(words) > 2 and words[2] not in setups() and not re.match(r"\d\d$", words[2]):
            return f"./tenfold setup has no {words[2]}"
    for flag in re.findall(r"--[a-z-]+", command):
        sources = ["tenfold", *(root / "common/cli").glob("commands_*.cpp"), "common/base/flags.cpp", words[0]]
        if not any(f'"{flag}"' in text(name) or f"{flag})" in text(name) for name in sources):
            return f"nothing knows {flag}"
    return ""


def commands_of(name):
    """The lines that a YAML file calls: `run: X`, `run: |` with a block below, `entry: X`."""
    found = []
    for indent, block, line in re.findall(r"^( *)(?:- )?(?:run|entry): *(\|?)(.*)$", text(name), flags=re.MULTILINE):
        assert not block, f"{name}: blocks are not read here; one command a step"
        found += [part.strip() for part in line.split("&&")]
    return found


class Entrance(unittest.TestCase):
    def test_yaml_can_be_read(self):
        try:
            import yaml
        except ImportError:
            yaml = None
        self.assertGreaterEqual(len(forms), 3)
        self.assertEqual([file.name for file in workflows], ["ci.yml", "kernels.yml"])
        for file in yaml_files:
            for number, line in enumerate(file.read_text().splitlines(), 1):
                self.assertNotIn("\t", line, f"{file}:{number}: YAML allows no tab")
                indent = len(line) - len(line.lstrip(" "))
                self.assertEqual(indent % 2, 0, f"{file}:{number}: two spaces a level")
            if yaml:
                self.assertIsInstance(yaml.safe_load(file.read_text()), dict, file)

    def test_what_is_called_exists(self):
        called = []
        for name in [*workflows, root / ".pre-commit-config.yaml"]:
            called += [(name, command) for command in commands_of(name)]
        container = json.loads(text(".devcontainer/devcontainer.json"))
        called.append((".devcontainer/devcontainer.json", container["postCreateCommand"]))
        for page in ["docs/sending_results.md", "docs/first_changes.md"]:
            called += [(page, line.split("#")[0].strip()) for line in re.findall(r"^ {4,}(\./tenfold .*)$", text(page), flags=re.MULTILINE)]
        called = [(name, command) for name, command in called if command.startswith(("./", ".ci/", ".venv/"))]
        self.assertGreater(len(called), 15)
        for name, command in called:
            self.assertEqual(problem_of_command(command), "", f"{name}: {command}")
        self.assertIn(".ci/run", commands_of(root / ".github/workflows/ci.yml"))
        self.assertIn("./tenfold test kernels", commands_of(root / ".github/workflows/kernels.yml"))

    def test_the_check_of_commands_bites(self):
        for bad in ["./tenfold nosuch", "./tenfold setup nosuch", ".ci/walk", "common/tools/nosuch.sh", ".venv/bin/python common/tools/nosuch.py --check",
                    ".venv/bin/python common/tools/format.py --nosuch", "./tenfold publish --nosuch"]:
            self.assertNotEqual(problem_of_command(bad), "", bad)

    def test_workflows(self):
        for file in workflows:
            used = re.findall(r"uses: (\S+)", file.read_text())
            self.assertGreater(len(used), 1)
            for action in used:
                self.assertRegex(action, r"^[\w-]+/[\w-]+@v\d+\.\d+\.\d+$", f"{file}: an action has a whole version")
            for part in ["permissions:\n  contents: read\n", "timeout-minutes:", "~/.cache/tenfold"]:
                self.assertIn(part, file.read_text(), file)
            self.assertNotIn("secrets.", file.read_text(), file)
            self.assertNotIn("pull_request_target", file.read_text(), file)

    def test_issue_forms(self):
        for file in forms:
            form = file.read_text()
            for field in ["name", "description", "body"]:
                self.assertRegex(form, rf"(?m)^{field}:", file)
            ids = re.findall(r"(?m)^    id: (\S+)$", form)
            self.assertEqual(len(ids), len(set(ids)), f"{file}: ids are unique")
            kinds = re.findall(r"(?m)^  - type: (\S+)$", form)
            self.assertTrue(set(kinds) <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}, kinds)
            self.assertEqual(len(ids), len([kind for kind in kinds if kind != "markdown"]), f"{file}: all but markdown have an id")
            self.assertIn("required: true", form, file)
            for page in re.findall(r"docs/\w+\.md", form):
                self.assertTrue((root / page).is_file(), f"{file}: {page}")

    def test_version(self):
        version = re.search(r"project\(tenfold VERSION (\S+)", text("CMakeLists.txt"))[1]
        self.assertIn(f"\nversion: {version}\n", text("CITATION.cff"))
        self.assertEqual(re.findall(r"(?m)^## (\d\S*)", text("CHANGELOG.md"))[0], version)
        self.assertRegex(text("CHANGELOG.md"), r"`tenfold\.result/" + re.search(r"tenfold\.result/(\d+)", text("common/result/result.h"))[1] + "`")

    def test_the_container_has_what_setup_asks_for(self):
        docker = text(".devcontainer/Dockerfile")
        wanted = re.search(r"package_table='\n(.*?)'", text("common/tools/system_packages.sh"), re.DOTALL)[1]
        for package in [line.split()[0] for line in wanted.splitlines()] + ["lld", "clang-16", "libclang-rt-16-dev"]:
            self.assertRegex(docker, rf"(?m)[ ]{re.escape(package)}( |$)", f"{package} is missing")
        container = json.loads(text(".devcontainer/devcontainer.json"))
        self.assertIn(f"target=/home/{container['remoteUser']}/.cache/tenfold,", container["mounts"][0])

    def test_nobody_is_named(self):
        for file in [*yaml_files, *(root / name for name in ["SECURITY.md", "CHANGELOG.md", ".github/pull_request_template.md"])]:
            self.assertNotRegex(file.read_text(), r"[\w.]+@[\w-]+\.(com|org|net|io|example)", f"{file}: no address")

    def test_hooks(self):
        hooks = text(".pre-commit-config.yaml")
        formats = re.search(r"files: (\S+)", hooks)[1]
        tracked = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True).stdout.split()
        for suffix in re.search(r"suffixes = \{(.*?)\}", text("common/tools/format.py"))[1].split(", "):
            self.assertRegex(f"common/x{suffix.strip(chr(34))}", formats, "the hook looks at what format.py looks at")
        if tracked:  # an archive of the tree has no git
            self.assertTrue(any(re.search(formats, name) for name in tracked))


if __name__ == "__main__":
    unittest.main()
