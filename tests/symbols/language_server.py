"""A client of language servers, as small as a list of references needs."""

import json
import subprocess
import threading
from pathlib import Path
from queue import Empty, Queue
from urllib.parse import unquote, urlparse

SECONDS_MAX = 300


class LanguageServer:
    """A server that has been started on a folder."""

    def __init__(self, command: list[str], folder: Path):
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.folder = folder
        self.number = 0
        self.answers: dict[int, Queue] = {}
        threading.Thread(target=self._read, daemon=True).start()
        root = folder.as_uri()
        capabilities = {"textDocument": {"references": {}}, "workspace": {"configuration": True, "workspaceFolders": True}}
        folders = [{"uri": root, "name": folder.name}]
        self.ask("initialize", {"processId": None, "rootUri": root, "capabilities": capabilities, "workspaceFolders": folders})
        self.tell("initialized", {})

    def _send(self, message: dict) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.process.stdin.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        while header := stream.readline():
            length = 0
            while header.strip():
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                header = stream.readline()
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                items = message.get("params", {}).get("items", []) if message["method"] == "workspace/configuration" else None
                self._send({"id": message["id"], "result": None if items is None else [None] * len(items)})
            elif message.get("id") in self.answers:
                self.answers[message["id"]].put(message)

    def ask(self, method: str, parameters: dict):
        self.number += 1
        answer = self.answers[self.number] = Queue()
        self._send({"id": self.number, "method": method, "params": parameters})
        try:
            message = answer.get(timeout=SECONDS_MAX)
        except Empty:
            raise TimeoutError(f"{method} took more than {SECONDS_MAX} s") from None
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error'].get('message')}")
        return message["result"]

    def tell(self, method: str, parameters: dict) -> None:
        self._send({"method": method, "params": parameters})

    def open(self, path: str, language: str) -> None:
        place = self.folder / path
        document = {"uri": place.as_uri(), "languageId": language, "version": 1, "text": place.read_text(errors="replace")}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def references(self, path: str, line: int, column: int) -> set[tuple[str, int]]:
        """Places, by path and line, that mean the symbol at this place. The first line is 1."""
        found = self.ask("textDocument/references", {
            "textDocument": {"uri": (self.folder / path).as_uri()},
            "position": {"line": line - 1, "character": column},
            "context": {"includeDeclaration": True},
        })
        places = set()
        for one in found or []:
            place = Path(unquote(urlparse(one["uri"]).path))
            if place.is_relative_to(self.folder):
                places.add((str(place.relative_to(self.folder)), one["range"]["start"]["line"] + 1))
        return places

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
