//! A terminal for tests that wraps its lines again when its width changes, as most terminals do.

/// The contents of the terminal and its cursor.
#[derive(Debug)]
pub(super) struct Terminal {
    columns: usize,
    /// The unwrapped lines. Each takes as many rows as it needs.
    lines: Vec<Vec<char>>,
    /// The line of the cursor, and its letter there.
    line: usize,
    letter: usize,
}

impl Terminal {
    pub(super) fn new(columns: usize) -> Terminal {
        Terminal { columns, lines: vec![Vec::new()], line: 0, letter: 0 }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The lines, without blanks at their ends.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
        self.lines.iter().map(text).collect()
    }

    /// Changes the width. The cursor stays at its letter.
    pub(super) fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Interprets the output of [`super::paint`]; other sequences panic. Each letter is one column wide.
    pub(super) fn write(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' => self.letter -= self.letter % self.columns,
                '\n' => self.down(),
                '\x1b' => {
                    assert_eq!(letters.next(), Some('['), "{text:?}");
                    let mut number = String::new();
                    let kind = loop {
                        match letters.next().expect("a whole sequence") {
                            kind if kind.is_ascii_alphabetic() => break kind,
                            digit => number.push(digit),
                        }
                    };
                    self.execute(&number, kind);
                }
                letter => self.put(letter),
            }
        }
    }

    fn execute(&mut self, number: &str, kind: char) {
        match kind {
            'J' => {
                self.lines.truncate(self.line + 1);
                self.lines[self.line].truncate(self.letter);
            }
            'A' => (0..number.parse().unwrap_or(1)).for_each(|_| self.up()),
            'm' => {}
            other => panic!("{number}{other}"),
        }
    }

    fn put(&mut self, letter: char) {
        let line = &mut self.lines[self.line];
        line.resize(line.len().max(self.letter + 1), ' ');
        line[self.letter] = letter;
        self.letter += 1;
    }

    /// One row down, which is a new line at the end.
    fn down(&mut self) {
        let below = self.letter + self.columns;
        if below < self.lines[self.line].len() {
            self.letter = below;
            return;
        }
        self.letter %= self.columns;
        self.line += 1;
        if self.line == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    /// One row up.
    fn up(&mut self) {
        if self.letter >= self.columns {
            self.letter -= self.columns;
            return;
        }
        self.line = self.line.saturating_sub(1);
        let last_row = self.lines[self.line].len().saturating_sub(1) / self.columns;
        self.letter += last_row * self.columns;
    }
}
