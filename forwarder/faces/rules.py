"""Which faces may be created and updated, and the error codes of the others (NFD wiki, "FaceMgmt")."""

from forwarder.faces.uri import FaceUri, parse
from forwarder.links.link import MIN_FRAME
from forwarder.tables.face import Face, Persistency
from forwarder.tables.face_system import LOCAL_FIELDS, FaceParameters, Outcome

_IP = ("udp4", "udp6", "tcp4", "tcp6")


def ends(wanted: FaceParameters) -> tuple[FaceUri, FaceUri | None]:
    """Return the FaceUris of both ends, the local one if it is given; raise ValueError for code 400."""
    remote = parse(wanted.uri or "")
    local = None if wanted.local_uri is None else parse(wanted.local_uri)
    for uri in (remote, local):
        if uri is not None and not uri.is_canonical:
            raise ValueError(f"{uri} is not in canonical form")
    return remote, local


def refusal(remote: FaceUri, local: FaceUri | None, wanted: FaceParameters) -> Outcome | None:
    """Return why there can be no such face; None if there can."""
    scheme = remote.scheme
    bits = (wanted.flags or 0) & (wanted.mask or 0)
    is_tcp = scheme.startswith("tcp")
    is_local = is_tcp and remote.is_loopback
    if scheme not in (*_IP, "ether"):
        return Outcome(406, f"no face can be made to {scheme}://")
    if scheme == "ether" and (local is None or local.scheme != "dev"):
        return Outcome(406, "an Ethernet face needs a LocalUri dev://<interface>")
    if scheme != "ether" and local is not None:
        return Outcome(406, f"a LocalUri cannot be chosen for {scheme}")
    if remote.is_multicast:
        return Outcome(406, "multicast faces are made by the configuration")
    if wanted.persistency is Persistency.ON_DEMAND:
        return Outcome(406, "a face that is asked for is persistent or permanent, not on demand")
    if bits & LOCAL_FIELDS and not is_local:
        return Outcome(406, "local fields are for faces of local scope")
    if is_tcp and wanted.mtu is not None:
        return Outcome(406, "a TCP face has no MTU")
    if wanted.mtu is not None and wanted.mtu < MIN_FRAME:
        return Outcome(406, f"an MTU is at least {MIN_FRAME}")
    return None


def rejected(
    face: Face, wanted: FaceParameters, persistencies: frozenset[Persistency], has_mtu: bool
) -> FaceParameters | None:
    """Return those of the parameters that a face cannot have, as they were asked for; None if it can all.

    `persistencies` are those that it may have, `has_mtu` whether its frames are limited in size.
    """
    bits = (wanted.flags or 0) & (wanted.mask or 0)
    bits &= 0 if face.is_local else LOCAL_FIELDS
    persistency, mtu = wanted.persistency, wanted.mtu
    if persistency in persistencies:
        persistency = None
    if mtu is not None and has_mtu and mtu >= MIN_FRAME:
        mtu = None
    if not bits and persistency is None and mtu is None:
        return None
    return FaceParameters(persistency=persistency, mtu=mtu, flags=bits or None, mask=bits or None)
