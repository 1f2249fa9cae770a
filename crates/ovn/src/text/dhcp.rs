//! `DHCP_Options.options`: the options that OVN's DHCP server sends to instances.
//!
//! northd pastes names and values into `put_dhcp_opts(...)` of a logical flow unchanged, so the author of a value is the author
//! of the flow. This module pastes nothing. [`option`] lists OVN's options with their types, [`DhcpValue`] holds a value of
//! such a type and prints it for the lexer of logical flows, and a [`DhcpOptionSet`] accepts only listed options with values of
//! their types.

mod list;
pub mod option;
mod set;
mod value;

pub use list::{AddressList, StaticRoutes};
pub use option::{DhcpKind, DhcpOption, DhcpVersion};
pub use set::DhcpOptionSet;
pub use value::DhcpValue;

use super::domain_name::DomainNameError;
use super::quoted::QuotedError;

/// A value that an option cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DhcpError {
    /// OVN has no option of this name.
    #[error("OVN has no DHCP option {0:?}")]
    Unknown(String),
    /// An opening brace without a closing one, or no brace where a list is required.
    #[error("{0:?} is not a list in braces")]
    Braces(String),
    /// An element is neither an address nor a prefix, as its position requires.
    #[error("{0:?} is not an address of the kind that belongs here")]
    Address(String),
    /// Destinations and next hops do not pair up.
    #[error("the list has {0} elements, an odd number")]
    Odd(usize),
    /// The list is empty.
    #[error("the list is empty")]
    Empty,
    /// The value is not a number, or out of range.
    #[error("{0:?} is not a number from 0 to {1}")]
    Number(String, u32),
    /// The value is neither `true` nor `false`.
    #[error("{0:?} is neither true nor false")]
    Bool(String),
    /// The value is not an Ethernet address.
    #[error("{0:?} is not a MAC address")]
    Mac(String),
    /// The value is not a valid string.
    #[error(transparent)]
    Text(#[from] QuotedError),
    /// The value is not a DNS name.
    #[error(transparent)]
    Domain(#[from] DomainNameError),
    /// The value is too long. The length of an option is one byte, and OVN does not check it.
    #[error("it takes {0} bytes of the {1} that an option has")]
    Long(usize, usize),
    /// A value of another type than the option's.
    #[error("it is not {0}")]
    Kind(&'static str),
}
