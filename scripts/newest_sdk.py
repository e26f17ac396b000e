"""Try the daemon with the newest official SDK, whatever it is by now.

The suite pins two vintages so that it says the same thing every day; this says what the suite would say
if it pinned today's. It installs the newest published SDK into a temporary folder, drives the daemon with
its v2 client, and holds every recorded frame to the schemas that it ships.

    python scripts/newest_sdk.py [VERSION]
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kit import packages  # noqa: E402 - the repository's root has to be on the path
from tests.kit.daemon import PROGRAM  # noqa: E402
from tests.kit.home import Home  # noqa: E402
from tests.kit.play import conformance  # noqa: E402
from tests.kit.published import PublishedSchema, published  # noqa: E402
from tests.kit.schema import Gate  # noqa: E402

PACKAGE = "@agentclientprotocol/sdk"


def install(folder: Path, version: str) -> Path:
    """Install the SDK as ``newest`` into ``folder``; returns the package's folder."""
    dependencies = {"newest": f"npm:{PACKAGE}@{version}", "zod": "^4.0.0"}
    (folder / "package.json").write_text(json.dumps({"type": "module", "dependencies": dependencies}))
    return packages.install(folder) / "newest"


def schemas_of(package: Path) -> tuple[PublishedSchema, ...]:
    """The v2 schemas that a package ships, closed."""
    files = sorted((package / "schema" / "v2").glob("*.json"))
    return tuple(PublishedSchema(f"newest {file.name}", json.loads(file.read_text())) for file in files)


def drive(folder: Path, scenario: str, home: Home, **more: str) -> dict:
    """Run one scenario of the driver with the newest SDK and return its summary."""
    frames = folder / f"{scenario}.jsonl"
    plan = {
        "command": PROGRAM,
        "env": home.environment(),
        "cwd": str(home.workspace),
        "frames": str(frames),
        "prompts": {"hello": "hi", "ask": "ask", "wait": "wait"},
        **more,
    }
    command = [packages.node(), folder / "drive.mjs", "newest", scenario, json.dumps(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{scenario}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    """Install, drive, check, and say what happened."""
    version = sys.argv[1] if len(sys.argv) > 1 else "latest"
    with tempfile.TemporaryDirectory(prefix="term2-newest-") as name:
        folder = Path(name)
        package = install(folder, version)
        shutil.copy(ROOT / "tests" / "clients" / "drive.mjs", folder)
        found = json.loads((package / "package.json").read_text())["version"]
        print(f"{PACKAGE} {found}")
        home = Home.make(folder / "home")
        home.play(conformance(home))
        live = drive(folder, "live", home)
        turns = ("hello", "allowed", "rejected", "cancelled")
        print("  turns:", ", ".join(f"{turn} {live[turn]['stopReason']}" for turn in turns))
        again = drive(folder, "again", home, sessionId=live["sessionId"])
        print(f"  replay: {len(again['replay'])} updates, then {again['idle']['stopReason']}")
        print(f"  withdrawn: {drive(folder, 'withdrawn', home)['stopReason']}")
        for scenario in ("live", "again", "withdrawn"):
            lines = (folder / f"{scenario}.jsonl").read_text().splitlines()
            gate = Gate({1: published(1), 2: schemas_of(package)})
            for line in lines:
                gate.check_line(*json.loads(line))
            print(f"  {scenario}: {len(lines)} frames satisfy {found}'s schemas")


if __name__ == "__main__":
    main()
