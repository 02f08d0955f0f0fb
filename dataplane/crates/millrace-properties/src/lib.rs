//! The text formats of Kafka's configuration, for broker and tools.
//!
//! | part | what it is |
//! |---|---|
//! | `properties` | Java's properties files, and where each value came from |
//! | `jaas` | `sasl.jaas.config`: a login module with options |
//! | `pem` | PEM texts that have lost their line ends |
//!
//! What a key means is not known here.

mod jaas;
mod pem;
mod properties;

pub use jaas::{InvalidJaas, JaasEntry, OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE};
pub use pem::pem_lines;
pub use properties::{InvalidProperties, Origin, PROPERTIES_BYTES_MAX, Properties, Value};
