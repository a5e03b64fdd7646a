"""BMCs to measure with: the Redfish simulator of the test kit, all in one process."""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

USER, PASSWORD = "admin", "secret"


class Farm:
    """A rack of simulated BMCs on ports of 127.0.0.1."""

    def __init__(self, folder, count, program):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                [program, "--hosts", str(count), "--directory", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait()
        endpoints = json.loads((self.folder / "endpoints.json").read_text())
        self.ca = endpoints["ca"]
        self.systems = endpoints["systems"]
        # curl's own netrc: a password on argv is seen by everybody.
        self.netrc = self.folder / "netrc"
        self.netrc.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
        self.netrc.chmod(0o600)

    def _wait(self):
        deadline = time.monotonic() + 60
        while not (self.folder / "endpoints.json").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("rack-sim did not start:\n" + (self.folder / "log").read_text())
            time.sleep(0.05)

    @property
    def addresses(self):
        """In baremetal-operator's grammar, which names the system: no discovery."""
        return [system.replace("https://", "redfish://") for system in self.systems]

    def with_dead(self, every):
        """Every n-th address leads to nobody who answers."""
        dead = self._silent()
        return [
            f"redfish://127.0.0.1:{dead}/redfish/v1/Systems/1" if index % every == every - 1 else address
            for index, address in enumerate(self.addresses)
        ]

    def _silent(self):
        """A port that takes connections (the kernel does) and never says a word."""
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        return self.listener.getsockname()[1]

    def curl(self, addresses):
        urls = [address.replace("redfish://", "https://") for address in addresses]
        command = ["curl", "--silent", "--show-error", "--parallel", "--parallel-max", "200"]
        command += ["--parallel-immediate", "--max-time", "5", "--cacert", self.ca, "--netrc-file", str(self.netrc)]
        return [*command, *urls]

    @property
    def fence(self):
        return (
            f"fence_redfish -a 127.0.0.1 -l {USER} -p {PASSWORD} --ssl-insecure "
            "--ipport {} --systems-uri " + urlsplit(self.systems[0]).path
        )

    @staticmethod
    def ports(addresses):
        return [str(urlsplit(address).port) for address in addresses]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
