"""Part of hack/image: the crates of a program, their licences, and a bill of materials."""

import hashlib
import json
import re
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

TEXTS = re.compile(r"^(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.I)


class Crates:
    """What cargo knows about the crates of this repository."""

    def __init__(self, root):
        self.root = root
        told = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
        host = re.search(r"^host: (.*)$", told, re.M)[1]
        metadata = json.loads(self.cargo("metadata", "--format-version=1", "--filter-platform", host))
        self.packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
        self.members = {p["name"]: p for p in metadata["packages"]
                        if p["id"] in set(metadata["workspace_members"])}
        locked = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
        self.checksums = {(p["name"], p["version"]): p.get("checksum") for p in locked["package"]}

    def cargo(self, *arguments):
        command = ["cargo", *arguments, "--locked"]
        done = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def version(self, program):
        return self.members[program]["version"]

    def of(self, program):
        """The crates that are linked into a program, itself left out, with the names of those that
        each one depends on."""
        lines = self.cargo("tree", "--package", program, "--edges", "normal,no-proc-macro",
                           "--prefix", "depth", "--format", " {p}", "--no-dedupe")
        crates, path = {}, []
        for line in lines.splitlines():
            depth, name, version = re.match(r"(\d+) (\S+) v(\S+)", line).groups()
            key = (name, version)
            path[int(depth):] = [key]
            crates.setdefault(key, set())
            if len(path) > 1:
                crates[path[-2]].add(key)
        return {key: (self.packages[key], self.checksums.get(key), sorted(crates[key]))
                for key in sorted(crates)}


def licences(crates):
    """The licence texts of crates, each once, with the crates that it is of."""
    texts, without = {}, []
    for (name, version), (package, checksum, _) in crates.items():
        if checksum is None:
            continue
        directory = Path(package["manifest_path"]).parent
        # A crate may contain a library in C, in a directory of its own.
        found = [*directory.glob("*"), *directory.glob("*/*")]
        found = sorted(f for f in found if TEXTS.match(f.name) and f.suffix != ".rs" and f.is_file())
        if not found:
            without.append(f"{name} {version}: {package['license']}")
        for file in found:
            text = file.read_text(encoding="utf-8", errors="replace").strip()
            texts.setdefault(text, []).append(f"{name} {version} ({package['license']})")
    parts = ["Licences of the crates that this program contains."]
    if without:
        parts.append("Crates that come without a text, and the licences that they name:\n"
                     + "\n".join(without))
    parts += ["\n".join(names) + "\n\n" + text for text, names in texts.items()]
    return ("\n\n" + "-" * 80 + "\n\n").join(parts) + "\n"


def component(key, package, checksum, version=None):
    name, version = key[0], version or key[1]
    url = f"pkg:cargo/{quote(name)}@{quote(version)}"
    made = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    if package["license"]:
        # Older crates separate alternatives by a slash.
        expression = package["license"].replace("/", " OR ")
        made["licenses"] = [{"expression": expression}]
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def library(path, data, package):
    """A file of the C library, by the Debian package that it comes from."""
    made = {"type": "file", "bom-ref": f"file:{path}", "name": path,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]}
    if package:
        name, version, arch = package
        made["version"] = version
        made["purl"] = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={arch}"
    return made


def bill(program, version, revision, created, crates, libraries):
    """The bill of materials of one program, as JSON of CycloneDX 1.6."""
    main = next(key for key in crates if key[0] == program)
    refs = {key: f"pkg:cargo/{quote(key[0])}@{quote(key[1])}" for key in crates}
    package, checksum, _ = crates[main]
    described = component(main, package, checksum) | {"type": "application"}
    described["properties"] = [{"name": "rackhand:commit", "value": revision}]
    files = [library(*one) for one in libraries]
    compiler = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
    others = [{
        "type": "library", "bom-ref": "rust-std", "name": "std",
        "version": compiler.stdout.split()[1],
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }]
    others += [component(key, package, checksum)
              for key, (package, checksum, _) in crates.items() if key != main]
    dependencies = [{"ref": refs[key], "dependsOn": [refs[one] for one in needs]}
                    for key, (_, _, needs) in crates.items()]
    for one in dependencies:
        if one["ref"] == refs[main]:
            one["dependsOn"] = sorted({*one["dependsOn"], "rust-std", *(file["bom-ref"] for file in files)})
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": described,
        },
        "components": others + files,
        "dependencies": dependencies,
    }
    # Of the content, so that the same build has the same number.
    text = json.dumps(content, sort_keys=True)
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
