#!/usr/bin/env python3
"""Renders the status page of 10,000 hosts, and loads it in headless Chromium.

    hack/bench page

Prints how long the controller needs for the overview, HTML and JSON, and how long the browser needs from
the request to the second frame after the load, and for one refresh of the script. Nothing else should run.
"""

import functools
import http.server
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TEST = "page_of_ten_thousand_hosts_has_a_row_for_each_in_its_rack"
LOADS = 5

# Sends the number of rows and times in milliseconds to the server: `load` until the load event has been
# painted, `refresh` for fetching, parsing and painting the page once more as page.js does.
MEASURE = """<script>
const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
addEventListener("load", async () => {
  await painted();
  const load = Math.round(performance.now());
  const start = performance.now();
  await refresh();
  document.getElementById("content").getBoundingClientRect();
  await painted();
  const rows = document.querySelectorAll(".rack li").length;
  const body = JSON.stringify({ rows, load, refresh: Math.round(performance.now() - start) });
  await fetch("measured", { method: "POST", body });
});
</script></body>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.server.measured.put(json.loads(body))

    def log_message(self, *_):
        pass


def render(directory):
    command = ["cargo", "test", "--quiet", "--release", "--package", "rackhand-runtime", "--lib",
               "--", "--nocapture", TEST]
    environment = os.environ | {"RACKHAND_PAGE_DIR": str(directory)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if re.match("overview|HTML|JSON", line):
            print(line)


def load(server):
    url = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-background-networking", f"--user-data-dir={profile}",
                   "--window-size=1280,1100", url]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return server.measured.get(timeout=60)
        finally:
            browser.terminate()
            browser.wait()


def main():
    with tempfile.TemporaryDirectory() as directory:
        render(Path(directory))
        page = Path(directory) / "index.html"
        page.write_text(page.read_text(encoding="utf-8").replace("</body>", MEASURE), encoding="utf-8")
        handler = functools.partial(Handler, directory=directory)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.measured = queue.Queue()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(LOADS):
            found = load(server)
            print(f"browser: {found['rows']} rows, loaded after {found['load']} ms, "
                  f"refreshed in {found['refresh']} ms")
        server.shutdown()


main()
