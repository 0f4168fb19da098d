"""Controlled push: feeds that flow down the path of a long-lived Interest, as far as its credit goes.

Theory of operation. Every link of a subscription has a holder (downstream, wants items) and an upstream
(has them, or gets them). The two halves are written once and put together three ways:

- :mod:`~forwarder.lli.ranges`: what each downstream may still be sent;
- :mod:`~forwarder.lli.upstream`: what was asked of the upstream, when to ask again;
- consumer = upstream half + in-order delivery; producer = ranges + its log;
  relay (in the forwarder) = ranges + verified cache + upstream half.

Source: Tarr et al., "Secure Scuttlebutt" (2019), section 4.5; docs/controlled-push.md has the rules.
"""
