"""A notebook as a script: VS Code and Jupytext open it cell by cell, and `python experiment.py` runs it."""

# %% [markdown]
# # How long does a link's break cost a subscriber?

# %%
from feednet import Experiment, LiveRun, delivered, everything_delivered
from feednet.topologies import star

network = star(3, delay_ms=5.0, bw_mbit=10.0)  # pub, r1, and s1 to s3 behind r1

experiment = Experiment(
    title="A star, one link of which breaks",
    topology=network,
    layerings=["poll", "lli"],
    workload={"items": 60, "schedule": {"speed": 1e6, "idle_limit_ms": 60.0}},
    settle_ms=4000,
)

# %% [markdown]
# A script is called for each layering, once its nodes run. It waits for conditions, and changes the network.

# %%
repaired: dict[str, float] = {}


def break_a_link(run: LiveRun) -> None:
    """Break s1's link when s1 has ten items, and mend it when s2 has thirty."""
    run.wait(delivered("s1", 10))
    run.link_down("r1", "s1")
    mended = run.wait(delivered("s2", 30))
    run.link_up("r1", "s1")
    caught_up = run.wait(lambda state: state.delivered("s1") >= state.delivered("s2"))
    repaired[run.layering] = caught_up.time_s - mended.time_s
    run.wait(everything_delivered)


results = experiment.run(net="emulated", script=break_a_link)
print("s to catch up:", {layering: round(seconds, 3) for layering, seconds in repaired.items()})

# %% [markdown]
# What was measured: the comparison of the report, and any table of docs/tables.md, as pandas or as Arrow.

# %%
print(results.comparison().loc[["delivered", "latency_p50", "bytes_per_item"]].round(1).to_string())
print(results.arrow("recovery").num_rows, "rows of recovery; the report is", results.report)
