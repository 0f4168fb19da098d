"""The ground floor: time, timers, estimates, sockets and the contracts of sans-IO programs."""
