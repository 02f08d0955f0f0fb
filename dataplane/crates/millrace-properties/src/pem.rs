//! PEM texts in a properties file, which may have lost their line ends.

/// Restores the line ends around the markers of a PEM text, which readers want.
#[must_use]
pub fn pem_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len() + 16);
    for (at, part) in text.split("-----").enumerate() {
        match at % 2 {
            1 => {
                lines.push_str("-----");
                lines.push_str(part.trim());
                lines.push_str("-----\n");
            }
            _ => {
                for word in part.split_whitespace() {
                    lines.push_str(word);
                    lines.push('\n');
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pem_text_without_line_ends_gets_them() {
        let flat = "-----BEGIN CERTIFICATE-----QUJD RA==-----END CERTIFICATE-----";
        let lines = "-----BEGIN CERTIFICATE-----\nQUJD\nRA==\n-----END CERTIFICATE-----\n";
        assert_eq!(pem_lines(flat), lines);
        assert_eq!(pem_lines(lines), lines);
    }
}
