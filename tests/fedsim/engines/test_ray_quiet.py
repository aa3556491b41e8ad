"""Ray says nothing on standard output when Flower's simulation ends its actors."""

import time

import pytest

from fedsim.engines import cluster, flower


@pytest.mark.proof
@pytest.mark.processes
def test_actors_end_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    """Ray would tell of a second try within a second; Flower may leave it that much time."""
    import ray
    from flwr.simulation.ray_transport.ray_actor import ClientAppActor

    cluster.connect(2, None, "--engine is 'flower'")
    try:
        actors = [ClientAppActor.options(**flower.actor_options(0)).remote() for _ in range(2)]
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        for actor in actors:
            actor.terminate.remote()
        time.sleep(3)
    finally:
        ray.shutdown()
    assert capfd.readouterr().out == ""
