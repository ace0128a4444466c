"""Every measure of one replication of a dispatcher, from the records of the event simulation."""

from __future__ import annotations

import reference_sim


def expected_measures(records, counted, window, system, at):
    scopes = {"all": lambda job: True}
    scopes |= {scope: lambda job, kind=kind: job.klass == kind for scope, kind in reference_sim.CLASS_SCOPES.items()}
    values = {}
    mean = reference_sim.mean
    for scope, member in scopes.items():
        jobs = [job for job in counted if member(job)]
        if jobs:
            values["mean_response", scope] = mean(job.response for job in jobs)
            values["mean_wait", scope] = mean(job.wait for job in jobs)
            values["wait_probability", scope] = mean(float(job.wait > 0) for job in jobs)
            for time in at:
                values["tail_response", scope, time] = mean(float(job.response > time) for job in jobs)
        present = [job for job in records if member(job)]
        values["mean_number", scope] = window.average((job.arrival, job.departure) for job in present)
        queues = [(job.arrival, job.start0) for job in present] + [(job.joined1, job.start1) for job in present]
        values["mean_queue", scope] = window.average(stay for stay in queues if None not in stay)
        values["throughput", scope] = departures((job.departure for job in present), window)
    group0, group1 = [j for j in records if j.group == 0], [j for j in records if j.start1 is not None]
    stays = {
        "group0": ([(j.arrival, j.start0, j.left0) for j in group0], [j.wait0 for j in counted if j.group == 0]),
        "group1": (
            [(j.joined1, j.start1, j.departure) for j in group1],
            [j.wait1 for j in counted if j.start1 is not None],
        ),
    }
    busy = 0.0
    for place, (scope, (visits, waits)) in enumerate(stays.items()):
        if waits:
            values["mean_wait", scope] = mean(waits)
            values["wait_probability", scope] = mean(float(wait > 0) for wait in waits)
        values["mean_number", scope] = window.average((join, left) for join, _, left in visits)
        values["mean_queue", scope] = window.average((join, start) for join, start, _ in visits)
        values["throughput", scope] = departures((left for _, _, left in visits), window)
        used = window.average((start, left) for _, start, left in visits)
        values["utilisation", scope] = used / system.servers[place]
        busy += used
    values["utilisation", "all"] = busy / sum(system.servers)
    killed = sum(job.klass == "r0" for job in counted)
    submitted0 = sum(job.group == 0 for job in counted)
    if submitted0:
        values["kill_probability", "group0"] = killed / submitted0
    values["kill_probability", "all"] = killed / len(counted)
    return values


def departures(instants, window) -> float:
    count = sum(1 for instant in instants if window.begin < instant <= window.end)
    return count / (window.end - window.begin)
