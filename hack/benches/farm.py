"""BMCs to measure with: ipmi_sim processes on 127.0.x.y:623."""

import os
import signal
import subprocess
import time
from pathlib import Path

USER, PASSWORD = "admin", "secret"

LAN = """name "bmc{index}"
set_working_mc 0x20
  startlan 1
    addr {address} 623
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa1234567{index:08x}
  endlan
  serial 15 {address} 9002 codec VM
  startcmd "sleep 100000"
  startnow true
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""

EMU = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""


def addresses(count):
    """127.0.1.1 to 127.0.1.250, then 127.0.2.1, and so on: ranges that ipmipower can read."""
    return [f"127.0.{1 + index // 250}.{1 + index % 250}" for index in range(count)]


def ranges(count):
    """The same for ipmipower: 127.0.1.[1-250],127.0.2.[1-250]."""
    parts = []
    for block in range((count + 249) // 250):
        last = min(250, count - block * 250)
        parts.append(f"127.0.{1 + block}.[1-{last}]")
    return ",".join(parts)


class Farm:
    """Some ipmi_sim processes. Each is a session of its own, so that its host goes with it."""

    def __init__(self, folder, count):
        self.processes = []
        self.addresses = addresses(count)
        for index, address in enumerate(self.addresses):
            home = Path(folder) / f"bmc{index}"
            (home / "state").mkdir(parents=True)
            config = LAN.format(index=index, address=address, user=USER, password=PASSWORD)
            (home / "lan.conf").write_text(config)
            (home / "sim.emu").write_text(EMU)
            argv = ["ipmi_sim", "-c", "lan.conf", "-f", "sim.emu", "-s", "state", "-n"]
            with open(home / "log", "w") as log:
                self.processes.append(
                    subprocess.Popen(
                        argv,
                        cwd=home,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            if index % 20 == 19:
                time.sleep(0.1)
        self._wait()

    def _wait(self):
        wanted = {f"{self._hex(address)}:026F" for address in self.addresses}
        deadline = time.monotonic() + 120
        while True:
            with open("/proc/net/udp") as table:
                bound = {line.split()[1] for line in table.readlines()[1:]}
            missing = wanted - bound
            if not missing:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(missing)} of {len(wanted)} ipmi_sim did not start")
            time.sleep(0.1)

    @staticmethod
    def _hex(address):
        return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))

    def stop_answering(self, every):
        """Every n-th BMC falls silent, as one that has hung: its port stays bound."""
        for process in self.processes[every - 1 :: every]:
            process.send_signal(signal.SIGSTOP)

    def answer_again(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)

    def close(self):
        self.answer_again()
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()
