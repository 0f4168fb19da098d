"""The lowest package: time, timers, estimates, sockets and the interfaces of sans-IO programs."""
