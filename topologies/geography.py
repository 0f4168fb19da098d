"""Delays from geography: light in fibre along the great circle.

Real cables make detours, and equipment adds to the delay: this is a lower bound.
"""

import math

EARTH_RADIUS_KM = 6371.0088
"""The mean radius R1 of IUGG."""

FIBRE_KM_PER_MS = 299.792458 * 2 / 3
"""Light in fibre has about two thirds of its speed in vacuum."""

Place = tuple[float, float]
"""Latitude and longitude in degrees, north and east above 0."""


def distance_km(a: Place, b: Place) -> float:
    """Return the great-circle distance of two places, by the haversine formula."""
    (lat_a, lon_a), (lat_b, lon_b) = (map(math.radians, place) for place in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, half)))


def delay_ms(a: Place, b: Place) -> float:
    """Return the one-way delay between two places in milliseconds, rounded to a microsecond."""
    return round(distance_km(a, b) / FIBRE_KM_PER_MS, 3)
