//! Primary layer-2 networks of Kubernetes with a transit router: the default gateway has one address and one MAC on all nodes.
//!
//! The cluster side allocates numbers and addresses and writes them into the API. The node side turns them into the rows of one
//! node's zone. Both derive everything else from the same functions, so that no two nodes disagree.
//!
//! Reading order: [`ident`] and [`address`] (numbers, and the addresses that follow from them), [`annotation`] (their form in the
//! API), [`network`] (one network and its rules), [`crd`] (the resources with which users ask for one). Then [`cluster`] (a copy of
//! the API's objects, and writes to them), [`manager`] (the cluster side) and [`zone`] (the node side). Beside them stand [`eip`]
//! (addresses with which pods leave), [`upgrade`] (from the topology without transit routers) and [`frames`] (packets that tell a
//! guest about its gateway).

pub mod address;
pub mod annotation;
pub mod cluster;
pub mod crd;
pub mod eip;
pub mod frames;
pub mod ident;
pub mod manager;
pub mod network;
pub mod upgrade;
pub mod zone;
