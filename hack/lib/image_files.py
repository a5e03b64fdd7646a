"""Part of hack/image: the files of an image, and the tar of a layer."""

import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CA_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
# Where the C library looks for names: in files, then by DNS.
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
LINE = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.M)


def owner_of(path):
    """The Debian package that a file comes from, with its version; or None."""
    try:
        # It may have been installed when /lib was not yet a link to /usr/lib.
        for known in (str(path), str(path).removeprefix("/usr")):
            done = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True)
            if done.returncode == 0:
                package = done.stdout.split(": ")[0]
                fields = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", package]
                done = subprocess.run(fields, capture_output=True, text=True, check=True)
                return tuple(done.stdout.split())
    except FileNotFoundError:
        pass
    return None


def static_libc():
    """Path, bytes and package of the C library for static programs."""
    found = subprocess.run(["cc", "-print-file-name=libc.a"], check=True, capture_output=True, text=True)
    path = Path(found.stdout.strip()).resolve()
    return str(path), path.read_bytes(), owner_of(path)


class Root:
    """The files of one layer, by path."""

    def __init__(self, created):
        self.created = created
        self.entries = {}

    def add_directory(self, path, mode=0o755, owner=0):
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.add_directory(parent)
        self.entries[path] = (tarfile.DIRTYPE, mode, owner, b"")

    def add_file(self, path, data, mode=0o644):
        self.add_directory(os.path.dirname(path))
        self.entries[path] = (tarfile.REGTYPE, mode, 0, data)

    def add_text(self, path, text):
        self.add_file(path, text.encode())

    def add_program(self, program, path):
        """A program without the symbols of a build for development."""
        with tempfile.NamedTemporaryFile() as stripped:
            subprocess.run(["strip", "-o", stripped.name, str(program)], check=True)
            self.add_file(path, Path(stripped.name).read_bytes(), mode=0o755)

    def add_base(self, program, user):
        """What a program needs at run time; returns path, bytes and package of each library, also of
        one that is linked into the program."""
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
        needed = LINE.findall(listed.stdout) if listed.returncode == 0 else []
        # The C library that is linked into a static program.
        libraries = [] if needed else [static_libc()]
        for path in sorted(set(needed)):
            real = Path(path).resolve()
            # /lib is a link to /usr/lib on Debian, but not in this image.
            self.add_file(path.lstrip("/"), real.read_bytes(), mode=0o755)
            libraries.append((path, self.entries[path.lstrip("/")][3], owner_of(real)))
        roots = Path(os.environ.get("SSL_CERT_FILE") or f"/{CA_BUNDLE}")
        if not roots.exists():
            sys.exit(f"image: there are no CA roots at {roots}; install ca-certificates")
        self.add_file(CA_BUNDLE, roots.read_bytes())
        self.add_text("etc/nsswitch.conf", NSSWITCH)
        self.add_text("etc/passwd", "root:x:0:0:root:/:/sbin/nologin\n"
                      f"rackhand:x:{user}:{user}:rackhand:/:/sbin/nologin\n")
        self.add_text("etc/group", f"root:x:0:\nrackhand:x:{user}:\n")
        self.add_directory("tmp", mode=0o1777)
        packages = {package[0] for *_, package in libraries if package} | {"ca-certificates"}
        for package in sorted(packages):
            copyright_ = Path("/usr/share/doc") / package / "copyright"
            if copyright_.exists():
                self.add_copyright(copyright_)
        return libraries

    def add_copyright(self, path):
        """What Debian says about a package, with the licences that it refers to."""
        data = path.read_bytes()
        self.add_file(str(path).lstrip("/"), data)
        for found in re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", data):
            text = Path("/usr/share/common-licenses") / found.decode()
            if text.exists():
                self.add_file(str(text).lstrip("/"), text.read_bytes())

    def tar(self):
        """The same bytes for the same files: sorted, with the time of the commit."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path, (kind, mode, owner, data) in sorted(self.entries.items()):
                entry = tarfile.TarInfo(path)
                entry.type, entry.mode, entry.mtime = kind, mode, self.created
                entry.uid = entry.gid = owner
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()
