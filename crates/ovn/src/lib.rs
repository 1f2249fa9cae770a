//! OVN's databases, conventions and write target
