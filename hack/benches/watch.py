"""What it costs an agent to watch 1,000 hosts: CPU time as a part of one core."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import redfish

ROOT = Path(__file__).resolve().parent.parent.parent

HOST = """[[hosts]]
name = "node-{index}"
bmc = {{ address = "{address}", username = "{user}", password_file = "password", keep_alive = {keep_alive} }}
"""


def configure(folder, farm, keep_alive):
    (folder / "password").write_text(redfish.PASSWORD)
    text = 'rack = "bench"\nsocket = "agent.sock"\nstate = "state"\nallowed_bmc_networks = ["127.0.0.0/8"]\n'
    text += f'[defaults]\ntrust = {{ ca_file = "{farm.ca}" }}\n'
    for index, address in enumerate(farm.addresses):
        text += HOST.format(index=index, address=address, user=redfish.USER, keep_alive=keep_alive)
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def main():
    parser = argparse.ArgumentParser(prog="hack/bench watch", description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--profile", default="release", help="profile of the build (release)")
    options = parser.parse_args()
    build = ["cargo", "build", "--quiet", "--locked", "--profile", options.profile]
    for of in (["--package", "rackhand-agent-service", "--example", "watch_cost"], ["--package", "rackhand-tests", "--bin", "rack-sim"]):
        subprocess.run([*build, *of], cwd=ROOT, check=True)
    target = ROOT / "target" / ("debug" if options.profile == "dev" else options.profile)
    print("| connections to BMCs | of a core |\n|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        farm = redfish.Farm(Path(folder) / "farm", options.hosts, target / "rack-sim")
        try:
            for keep_alive, name in (("true", "kept"), ("false", "one for each reading")):
                home = Path(folder) / keep_alive
                home.mkdir()
                config = configure(home, farm, keep_alive)
                command = [target / "examples" / "watch_cost", config, str(options.seconds)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                print(f"| {name} | {done.stdout.strip()} |", flush=True)
        finally:
            farm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
