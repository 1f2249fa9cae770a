//! The connection to the API server.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be used.
    #[error("cannot use kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The cause.
        source: kube::config::KubeconfigError,
    },
    /// Neither a service account nor a file.
    #[error("found neither a service account nor a kubeconfig; set kube.kubeconfig")]
    Infer(#[source] kube::config::InferConfigError),
    /// The client cannot be created.
    #[error("cannot create a client of the API server")]
    Client(#[source] kube::Error),
}

/// Creates a client: by a kubeconfig, or by the service account of the pod.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        Some(path) => {
            let failed = |source| ConnectError::Kubeconfig { path: path.display().to_string(), source };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)?
        }
        None => Config::infer().await.map_err(ConnectError::Infer)?,
    };
    Client::try_from(config).map_err(ConnectError::Client)
}
