"""Part of hack/image: an OCI image layout (image-spec 1.1).

Layers are not compressed: the bytes of a compressed one would depend on the version of the compressor.
Whoever copies an image to a registry compresses them there.
"""

import hashlib
import json
import os
import platform
import shutil
from datetime import datetime, timezone

MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class Layout:
    """Images in one directory, each by its name (`org.opencontainers.image.ref.name`)."""

    def __init__(self, directory, created):
        self.directory = directory
        self.created = datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.manifests = []
        self.blobs = {}

    def blob(self, media_type, data):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def json_blob(self, media_type, value):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return self.blob(media_type, text.encode())

    def add(self, name, layers, user, entrypoint, command, volumes, labels):
        labels = labels | {"org.opencontainers.image.created": self.created}
        described = [self.blob(LAYER, layer) for layer in layers]
        run = {"User": user, "Entrypoint": entrypoint, "Labels": labels, "WorkingDir": "/"}
        if command:
            run["Cmd"] = command
        if volumes:
            run["Volumes"] = {volume: {} for volume in volumes}
        machine = platform.machine()
        config = {
            "architecture": MACHINES.get(machine, machine),
            "os": "linux",
            "created": self.created,
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in described]},
            "history": [
                {"created": self.created, "created_by": "hack/image", "comment": comment}
                for comment in ("libraries and CA roots", "program and its licences")
            ],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.json_blob(CONFIG, config),
            "layers": described,
            "annotations": labels,
        }
        entry = self.json_blob(MANIFEST, manifest)
        entry["platform"] = {"architecture": config["architecture"], "os": "linux"}
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.manifests.append(entry)

    def write(self):
        """Replaces the directory."""
        if self.directory.exists() and not (self.directory / "oci-layout").exists() \
                and any(self.directory.iterdir()):
            raise SystemExit(f"image: {self.directory} is not empty and no image layout")
        shutil.rmtree(self.directory, ignore_errors=True)
        blobs = self.directory / "blobs" / "sha256"
        os.makedirs(blobs)
        for digest, data in self.blobs.items():
            (blobs / digest).write_bytes(data)
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests}
        (self.directory / "index.json").write_text(json.dumps(index, sort_keys=True, indent=1) + "\n")
        (self.directory / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}\n')
