//! Kafka's authorizer, as a process that answers.

use std::{
    error::Error,
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use millrace_bench::kafka::{Version, java};

use crate::sets::{SUPER_USER, Set};

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/drills/acls/KafkaAuthorizer.java"
);
const HEAP: [&str; 1] = ["-Xmx512M"];

/// The process; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct KafkaAuthorizer {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl KafkaAuthorizer {
    /// Fetches Kafka the first time.
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = java(Version::V4, &HEAP)?;
        let mut process = command
            .arg("-Dfile.encoding=UTF-8")
            .arg(Path::new(SOURCE))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("java: {error}; a JDK 17 is needed"))?;
        let questions = process.stdin.take().ok_or("no standard input")?;
        let answers = process.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            process,
            questions,
            answers: BufReader::new(answers),
        })
    }

    /// What it says to each question of a set.
    pub(crate) fn decide(&mut self, set: &Set) -> Result<Vec<bool>, Box<dyn Error>> {
        self.questions.write_all(written(set)?.as_bytes())?;
        self.questions.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answers: Vec<bool> = line.trim_end().chars().map(|sign| sign == '+').collect();
        if answers.len() == set.questions.len() {
            return Ok(answers);
        }
        Err(format!(
            "{} answers to {} questions: {line:?}",
            answers.len(),
            set.questions.len()
        )
        .into())
    }
}

impl Drop for KafkaAuthorizer {
    fn drop(&mut self) {
        // It has ended already where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn written(set: &Set) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for rule in &set.rules {
        let codes = rule.codes();
        writeln!(
            text,
            "rule\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            codes.resource_type,
            codes.resource_name,
            codes.pattern,
            codes.principal,
            codes.host,
            codes.operation,
            codes.permission
        )?;
    }
    let super_users = if set.has_super_user { SUPER_USER } else { "" };
    writeln!(text, "load\t{super_users}\t{}", set.allow_if_no_rule)?;
    for question in &set.questions {
        let (who, host) = (question.principal, question.host);
        let (operation, kind) = (question.operation.code(), question.resource_type.code());
        match question.name {
            Some(name) => writeln!(text, "ask\t{who}\t{host}\t{operation}\t{kind}\t{name}")?,
            None => writeln!(text, "any\t{who}\t{host}\t{operation}\t{kind}")?,
        }
    }
    text.push_str("end\n");
    Ok(text)
}
