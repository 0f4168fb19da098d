"""Scuttlebutt's feeds by a broker: MQTT 3.1.1 (OASIS standard, 2014), as far as feeds need it.

- :mod:`~ssb.mqtt.packets`: control packets;
- :mod:`~ssb.mqtt.broker`: a broker;
- :mod:`~ssb.mqtt.client`: a client, which publishes and subscribes;
- :mod:`~ssb.mqtt.topics`: a topic for each message of a feed.
"""
