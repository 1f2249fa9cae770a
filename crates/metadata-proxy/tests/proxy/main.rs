//! The proxy with a real agent's channel, real sockets, and a Nova that checks nothing and tells all.

mod lifecycle;
mod requests;
mod site;
mod source;
mod tls;
