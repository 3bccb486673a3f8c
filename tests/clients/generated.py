"""Generates a Python client from the description that a running backend serves, and uses it.

Takes the backend's address, a repository, and an empty folder. A warning of the generator is a failure: it means that a
part of the interface is missing from the client. Prints one line of JSON.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path


def generate(address, folder):
    configuration = folder / "configuration.yml"
    # The generator would format its output with a program that nothing here needs.
    configuration.write_text("post_hooks: []\n", encoding="utf-8")
    generator = Path(sys.executable).with_name("openapi-python-client")
    arguments = ["generate", "--url", f"{address}/openapi.json", "--fail-on-warning"]
    arguments += ["--config", configuration, "--output-path", folder / "client"]
    made = subprocess.run([sys.executable, generator, *arguments], capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(made.stdout + made.stderr)
    sys.path.insert(0, str(folder / "client"))


def use(address, repository):
    client = importlib.import_module("tool_client").Client(base_url=address, raise_on_unexpected_status=True)
    api, models = "tool_client.api", importlib.import_module("tool_client.models")

    def call(module, **arguments):
        return importlib.import_module(f"{api}.{module}").sync(client=client, **arguments)

    request = models.ExecuteRequest(operation=models.Operation.EXPLAIN, target=".", repo_path=repository)
    session = call("sessions.execute", body=request).session_id
    result = None
    while result is None or result.status == models.Status.RUNNING:
        result = call("sessions.results", session_id=session)
    scan = call("repository.scan", body=models.ScanRequest(repo_path=repository))
    unknown = call("sessions.results", session_id="00000000-0000-0000-0000-000000000000")
    skill = models.SkillEvent.from_dict({"type": "skill", "name": "read_file", "args": {"path": "a.py"}})
    return {
        "status": result.status,
        "operation": result.operation,
        "has_output": bool(result.output),
        "files": scan.files,
        "error": unknown.error.code,
        "arguments": skill.args.to_dict(),
    }


def main():
    address, repository, folder = sys.argv[1:]
    generate(address, Path(folder))
    print(json.dumps(use(address, repository)))


main()
