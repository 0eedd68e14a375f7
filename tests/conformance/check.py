#!/usr/bin/env python3
"""Runs every black-box case that can pass so far, and counts the others by what they wait for.

check.py [--jobs N] [--waiting] [--out report.json] [FOLDER]

FOLDER holds scenarios.yaml and validation.json (default: ../data/conformance). A unit is one
thing that passes or fails: a scenario in one variant (`rse-007/v1`), one side of a validation
case (`val-re-005/operator`), or a whole case (`val-ht-001`). `waits.txt` names the units that
wait for something that is not built yet; they are counted by that, never dropped. In another
FOLDER, whose cases the list cannot know, whatever subscribes a framework waits too. `--waiting`
runs exactly those that wait instead, to find lines of the list that are no longer true.
`../conformance-deviations.md` names the units that are answered differently on purpose.

Ends with one line: `conformance: N passed, N failed, N deviate, N skipped, N wait (…)`. Exit 1 on
a failure, on a line of a list that is not true, or with nothing run. `run.py` beside it runs
single cases by name.
"""
import argparse
import collections
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    import yaml
except ImportError:
    sys.exit("conformance: PyYAML is missing (apt install python3-yaml, or pip install pyyaml)")

from hf import scen, targets, val  # noqa: E402

CASES = os.path.join(HERE, "../data/conformance")
WAITS = os.path.join(HERE, "waits.txt")
DEVIATIONS = os.path.join(HERE, "../conformance-deviations.md")
SCENARIO_SECONDS = 60
INTERVAL = "1s"
SHARE_MAX = 8
PORT_FIRST, PORT_COUNT = 11000, 19000
# Most of a case is waiting for processes, so that more of them than processors run at a time.
JOBS_PER_PROCESSOR = 3


class Unit:
    """One thing to run. `kind` is `scenario` or `validation`; `names` are what the list may call
    it by: its own name, its case, its group, and its group on that side."""

    def __init__(self, kind, name, group, case, variant=None):
        self.kind, self.name, self.group, self.case, self.variant = kind, name, group, case, variant
        side = name.split("/")[1:] if kind == "validation" else []
        self.names = [name, case["id"], group] + [group + "/" + s for s in side]

    def subscribes(self):
        """Whether a framework is part of it."""
        if self.kind == "scenario":
            return any("framework" in step for step in self.case["steps"])
        request = self.case.get("request", {})
        return (
            self.name.endswith("/scheduler")
            or bool(self.case.get("agent", {}).get("used"))
            or self.group in ("task", "framework-info", "accept")
            or "after" in request
            or request.get("path", "").endswith("/scheduler")
        )


def scenario_units(path):
    with open(path) as file:
        scenarios = yaml.safe_load(file)["scenarios"]
    for case in scenarios:
        for variant in scen.variants(case):
            name = case["id"] + ("/" + variant if variant else "")
            yield Unit("scenario", name, case["group"], case, variant)


def validation_units(path):
    """Each side of an operation case is a unit of its own, carrying only that side's block."""
    with open(path) as file:
        cases = json.load(file)["cases"]
    val.collect(cases)
    sides = ("operator", "scheduler")
    for case in cases:
        if case["group"] not in val.OPGROUPS:
            yield Unit("validation", case["id"], case["group"], case)
            continue
        for side in sides:
            if side in case:
                own = {key: value for key, value in case.items() if key not in sides or key == side}
                yield Unit("validation", case["id"] + "/" + side, case["group"], own)


def read_waits(path):
    """`NAME: what it waits for` per line; what follows `#` is a comment."""
    waits = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            line = line.split("#")[0].strip()
            if line:
                name, separator, reason = line.partition(": ")
                if not separator or name in waits:
                    sys.exit("%s:%d: expected a new `NAME: REASON`" % (path, number))
                waits[name] = reason.strip()
    return waits


def read_deviations(path):
    """The names in the first column of the table."""
    with open(path) as file:
        rows = (re.match(r"\|\s*`?([a-z]+-[\w/-]*\d[\w/-]*)`?\s*\|", line) for line in file)
        return {row.group(1) for row in rows if row}


def assign(units, waits, is_foreign):
    """-> (units that run, [(unit, reason)] that wait, lines that name nothing)"""
    run, waiting, used = [], [], set()
    for unit in units:
        name = next((name for name in unit.names if name in waits), None)
        if name is not None:
            used.add(name)
            waiting.append((unit, waits[name]))
        elif is_foreign and unit.subscribes():
            waiting.append((unit, "frameworks"))
        else:
            run.append(unit)
    return run, waiting, [] if is_foreign else sorted(set(waits) - used)


def run_scenario(unit, base):
    status, reason, seconds, _ = scen.run_one(
        unit.case, unit.variant, "holdfast", base, INTERVAL, SCENARIO_SECONDS
    )
    return [(unit.name, unit.group, status, reason, seconds)]


def run_validation(units, base):
    """One worker's share: cases that want the same cluster share it."""
    results = []

    def report(name, group, status, reason, seconds):
        results.append((name, group, status, reason, seconds))

    val.run_all([unit.case for unit in units], "holdfast", base, report, lambda: False)
    return results


def start_worker(counter, workers):
    """Gives a worker ports that no other worker of this run uses."""
    with counter.get_lock():
        place = counter.value % workers
        counter.value += 1
    targets._port[0] = PORT_FIRST + place * (PORT_COUNT // workers)


def work(job):
    kind, units, base = job
    os.makedirs(base, exist_ok=True)
    if kind == "scenario":
        return run_scenario(units[0], base)
    return run_validation(units, base)


def jobs_of(units, base):
    """Scenarios one by one; validation cases in short shares of one group and one set of access
    rules, so that they share clusters. The longest come first."""
    by_cluster = collections.defaultdict(list)
    for unit in units:
        if unit.kind == "validation":
            where = unit.case.get("request", {}).get("at", "")
            by_cluster[(unit.group, where, json.dumps(unit.case.get("acls")))].append(unit)
    shares = []
    for group in by_cluster.values():
        shares += [group[n : n + SHARE_MAX] for n in range(0, len(group), SHARE_MAX)]
    shares.sort(key=len, reverse=True)
    jobs = [("validation", share, os.path.join(base, "v%d" % n)) for n, share in enumerate(shares)]
    return jobs + [("scenario", [unit], base) for unit in units if unit.kind == "scenario"]


def execute(units, base, workers):
    counter = multiprocessing.Value("i", 0)
    with multiprocessing.Pool(workers, start_worker, (counter, workers)) as pool:
        for results in pool.imap_unordered(work, jobs_of(units, base)):
            yield from results


def judge(results, deviations):
    """Turns the failure of a unit that deviates into `deviate`, and its passing into a failure."""
    for name, group, status, reason, seconds in results:
        if deviations & {name, name.split("/")[0]}:
            if status == "failed":
                status = "deviate"
            elif status == "passed":
                status, reason = "failed", "passes, though it is listed as a deviation"
        yield name, group, status, reason, seconds


STATES = ("passed", "failed", "deviate", "skipped")


def table(results, waiting):
    """Counts by group, one line each."""
    counts = collections.defaultdict(collections.Counter)
    for _, group, status, _, _ in results:
        counts[group][status] += 1
    for unit, _ in waiting:
        counts[unit.group]["wait"] += 1
    for group in sorted(counts):
        numbers = ["%3d %s" % (counts[group][state], state) for state in STATES + ("wait",)]
        print("%-22s %s" % (group, " ".join(numbers)))


def summary(results, waiting, seconds):
    count = collections.Counter(status for _, _, status, _, _ in results)
    reasons = collections.Counter(reason for _, reason in waiting)
    listed = ", ".join("%d for %s" % (n, reason) for reason, n in reasons.most_common())
    numbers = ", ".join("%d %s" % (count[state], state) for state in STATES)
    waits = "%d wait (%s)" % (len(waiting), listed) if waiting else "0 wait"
    print("conformance: %s, %s in %d s" % (numbers, waits, seconds))
    return count


def read_units(folder):
    scenarios = os.path.join(folder, "scenarios.yaml")
    validation = os.path.join(folder, "validation.json")
    units = []
    for path, read in ((scenarios, scenario_units), (validation, validation_units)):
        if os.path.exists(path):
            units += read(path)
        else:
            print("conformance: there is no " + path)
    return units


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    jobs = JOBS_PER_PROCESSOR * (os.cpu_count() or 1)
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--waiting", action="store_true", help="run what is listed as waiting")
    parser.add_argument("--out", help="write a report as JSON")
    parser.add_argument("folder", nargs="?", default=CASES)
    return parser.parse_args()


def main():
    options = arguments()
    if not os.environ.get("HOLDFAST_BIN"):
        sys.exit("conformance: HOLDFAST_BIN is not set")
    units = read_units(options.folder)
    is_foreign = os.path.realpath(options.folder) != os.path.realpath(CASES)
    run, waiting, stale = assign(units, read_waits(WAITS), is_foreign)
    chosen = [unit for unit, _ in waiting] if options.waiting else run
    base = tempfile.mkdtemp(prefix="hfconf-")
    started, results = time.time(), []
    try:
        for result in judge(execute(chosen, base, options.jobs), read_deviations(DEVIATIONS)):
            results.append(result)
            name, group, status, reason, _ = result
            if options.waiting and status == "passed":
                print("PASSES %s (%s), though it is listed as waiting" % (name, group))
            elif not options.waiting and status != "passed":
                print("%s %s (%s): %s" % (status.upper(), name, group, reason.replace("\n", " | ")))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.out:
        keys = ("id", "group", "status", "reason", "seconds")
        with open(options.out, "w") as file:
            json.dump([dict(zip(keys, result)) for result in results], file, indent=1)
    for name in stale:
        print("STALE waits.txt names %s, and there is no such case" % name)
    shown = [] if options.waiting else waiting
    table(results, shown)
    count = summary(results, shown, time.time() - started)
    is_bad = count["failed"] or stale or not count["passed"]
    sys.exit(1 if is_bad and not options.waiting else 0)


if __name__ == "__main__":
    main()
