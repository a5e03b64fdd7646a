"""Writes an image of one program, in the form that `ctr images import` takes.

Usage: image_archive.py NAME PROGRAM ARCHIVE
"""

import hashlib
import io
import json
import sys
import tarfile


def entry(archive, name, data, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def main(name, program, path):
    layer = io.BytesIO()
    with open(program, "rb") as file, tarfile.open(fileobj=layer, mode="w") as archive:
        entry(archive, "member", file.read(), 0o755)
    layer = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/member"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, mode="w") as archive:
        entry(archive, "manifest.json", json.dumps(manifest).encode())
        entry(archive, "config.json", json.dumps(config).encode())
        entry(archive, "layer.tar", layer)


if __name__ == "__main__":
    main(*sys.argv[1:])
