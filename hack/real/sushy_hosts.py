"""sushy-emulator whose systems are real hosts, which the test switches at ports of loopback.

Usage: sushy_hosts.py --config FILE

Each system of SUSHY_EMULATOR_FAKE_SYSTEMS has an additional `port`.
"""

import socket
import sys

from sushy_tools import error
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems import fakedriver

WORDS = {"On": "on", "ForceOn": "on", "ForceOff": "off", "ForceRestart": "reset"}


class RealDriver(fakedriver.FakeDriver):
    """The emulator's own driver, but for the power."""

    def _ask(self, identity, word):
        with socket.create_connection(("127.0.0.1", self._get(identity)["port"])) as line:
            line.sendall(f"{word}\n".encode())
            answer = line.makefile().readline().strip()
        if answer not in ("on", "off"):
            raise error.FishyError(f"the host answers: {answer}")
        return answer

    def get_power_state(self, identity):
        return self._ask(identity, "get").capitalize()

    def set_power_state(self, identity, state):
        if state not in WORDS:
            raise error.NotSupportedError(f"Power state {state} is not supported")
        self._ask(identity, WORDS[state])


fakedriver.FakeDriver = RealDriver
sys.exit(main.main())
