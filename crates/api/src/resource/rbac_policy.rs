//! Policies that let other projects use an object.

mod permission;

pub use permission::{
    EVERYBODY, foreign_users, forget, may_use_group, open_to_all, permits, set_open_to_all,
};
