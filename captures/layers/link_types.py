"""Names of link types, and remedies for those whose frames are not read.

Source: the registry of "Link-Layer Header Types" at tcpdump.org, names without LINKTYPE_. A number is that of
the name after it; each further name has the next number.
"""

from functools import lru_cache
from typing import Final

_REGISTRY: Final = """
0 NULL ETHERNET EXP_ETHERNET AX25 PRONET CHAOS IEEE802_5 ARCNET_BSD SLIP PPP FDDI
50 PPP_HDLC PPP_ETHER
99 SYMANTEC_FIREWALL ATM_RFC1483 RAW SLIP_BSDOS PPP_BSDOS C_HDLC IEEE802_11 ATM_CLIP FRELAY LOOP ENC
LANE8023 HIPPI NETBSD_HDLC LINUX_SLL LTALK
117 PFLOG
119 IEEE802_11_PRISM
122 IP_OVER_FC SUNATM
127 IEEE802_11_RADIOTAP TZSP ARCNET_LINUX JUNIPER_MLPPP JUNIPER_MLFR JUNIPER_ES JUNIPER_GGSN JUNIPER_MFR
JUNIPER_ATM2 JUNIPER_SERVICES JUNIPER_ATM1 APPLE_IP_OVER_IEEE1394 MTP2_WITH_PHDR MTP2 MTP3 SCCP DOCSIS
LINUX_IRDA IBM_SP IBM_SN
163 IEEE802_11_AVS JUNIPER_MONITOR BACNET_MS_TP PPP_PPPD JUNIPER_PPPOE JUNIPER_PPPOE_ATM GPRS_LLC GPF_T
GPF_F GCOM_T1E1 GCOM_SERIAL JUNIPER_PIC_PEER ERF_ETH ERF_POS LINUX_LAPD JUNIPER_ETHER JUNIPER_PPP
JUNIPER_FRELAY JUNIPER_CHDLC MFR JUNIPER_VP A429 A653_ICM USB_FREEBSD BLUETOOTH_HCI_H4 IEEE802_16_MAC_CPS
USB_LINUX CAN20B IEEE802_15_4_LINUX PPI IEEE802_16_MAC_CPS_RADIO JUNIPER_ISM IEEE802_15_4_WITHFCS SITA ERF
RAIF1 IPMB_KONTRON JUNIPER_ST BLUETOOTH_HCI_H4_WITH_PHDR AX25_KISS LAPD PPP_WITH_DIR C_HDLC_WITH_DIR
FRELAY_WITH_DIR LAPB_WITH_DIR
209 IPMB_LINUX FLEXRAY MOST LIN X2E_SERIAL X2E_XORAYA IEEE802_15_4_NONASK_PHY LINUX_EVDEV GSMTAP_UM
GSMTAP_ABIS MPLS USB_LINUX_MMAPPED DECT AOS WIHART FC_2 FC_2_WITH_FRAME_DELIMS IPNET CAN_SOCKETCAN IPV4 IPV6
IEEE802_15_4_NOFCS DBUS JUNIPER_VS JUNIPER_SRX_E2E JUNIPER_FIBRECHANNEL DVB_CI MUX27010 STANAG_5066_D_PDU
JUNIPER_ATM_CEMIC NFLOG NETANALYZER NETANALYZER_TRANSPARENT IPOIB MPEG_2_TS NG40 NFC_LLCP PFSYNC INFINIBAND
SCTP USBPCAP RTAC_SERIAL BLUETOOTH_LE_LL WIRESHARK_UPPER_PDU NETLINK BLUETOOTH_LINUX_MONITOR
BLUETOOTH_BREDR_BB BLUETOOTH_LE_LL_WITH_PHDR PROFIBUS_DL PKTAP EPON IPMI_HPM_2 ZWAVE_R1_R2 ZWAVE_R3
WATTSTOPPER_DLM ISO_14443 RDS USB_DARWIN OPENFLOW SDLC TI_LLN_SNIFFER LORATAP VSOCK NORDIC_BLE
DOCSIS31_XRA31 ETHERNET_MPACKET DISPLAYPORT_AUX LINUX_SLL2 SERCOS_MONITOR OPENVIZSLA EBHSCR VPP_DISPATCH
DSA_TAG_BRCM DSA_TAG_BRCM_PREPEND IEEE802_15_4_TAP DSA_TAG_DSA DSA_TAG_EDSA ELEE Z_WAVE_SERIAL USB_2_0
ATSC_ALP ETW NETANALYZER_NG ZBOSS_NCP USB_2_0_LOW_SPEED USB_2_0_FULL_SPEED USB_2_0_HIGH_SPEED AUERSWALD_LOG
ZWAVE_TAP SILABS_DEBUG_CHANNEL FIRA_UCI MDB DECT_NR EDK2_MM DEBUG_ONLY DECT_NR_TAP
"""
_PRIVATE: Final = range(147, 163)
"""USER0 to USER15: their meaning is each user's own."""

READ_HERE: Final = "Ethernet, raw IP, PPP, loopback and Linux's cooked capture (tcpdump -i any)"
"""Link types whose frames are read, in words."""


def _names() -> dict[int, str]:
    names, number = {each: f"USER{each - _PRIVATE.start}" for each in _PRIVATE}, 0
    for word in _REGISTRY.split():
        if word.isdecimal():
            number = int(word)
        else:
            names[number] = word
            number += 1
    return names


_NAMES: Final = _names()


@lru_cache(4096)
def not_read(link_type: int) -> str:
    """Return the problem of a link type that is not read."""
    if link_type < 0:
        return "link type unknown, as its interface's description is damaged"
    return f"link type {link_type} ({_NAMES.get(link_type, 'not registered')}) is not read"


def remedy(problems: list[str]) -> str | None:
    """Return a remedy if some of the problems are of not_read(), else None."""
    types = [each for each in problems if each.endswith(" is not read") and each.startswith("link type ")]
    if not types:
        return None
    advice = f"capture at an interface of a link type that is read: {READ_HERE}"
    if any("(USER" in each for each in types):
        advice += "; if frames of a private type are Ethernet, say so: editcap -T ether OLD NEW"
    return advice
