"""How hypothesis runs here: the same examples every time, as many as a second or two take. By hand: --hypothesis-profile=long."""

from hypothesis import HealthCheck, settings

UNHURRIED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("quick", derandomize=True, max_examples=30, deadline=None, database=None, suppress_health_check=UNHURRIED)
settings.register_profile("long", max_examples=2000, deadline=None, database=None, suppress_health_check=UNHURRIED)
settings.load_profile("quick")
