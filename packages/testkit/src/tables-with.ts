import pg from "pg";

/** Names of the tables in which one of these texts stands, in whatever column, be it text or bytes. */
export async function tablesWith(url: string, texts: readonly string[]): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const tables = await client.query(
      "SELECT quote_ident(table_name) AS name FROM information_schema.tables WHERE table_schema = 'public'",
    );
    const found: string[] = [];
    for (const { name } of tables.rows) {
      const { rows } = await client.query(`SELECT * FROM ${name}`);
      if (rows.some((row) => texts.some((text) => holds(row, text)))) found.push(name);
    }
    return found;
  } finally {
    await client.end();
  }
}

function holds(row: Record<string, unknown>, text: string): boolean {
  return Object.values(row).some((value) => {
    if (Buffer.isBuffer(value)) return value.includes(text);
    return (typeof value === "string" ? value : (JSON.stringify(value) ?? "")).includes(text);
  });
}
