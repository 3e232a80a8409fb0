from db.pool import Database


async def test_a_connection_commits_each_statement(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("INSERT INTO accounts (account_id) VALUES (5000000011)")
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT account_id FROM accounts")).fetchone()
    assert row == (5000000011,)


async def test_second(database: Database) -> None:
    assert await database.ping()
