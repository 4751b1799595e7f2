// Clients of PostgreSQL for Node.js beyond pg, each under its name; prints the features that work.
const assert = require('assert'), [name, scripted, real, password, counted, ends] = process.argv.slice(2);
const HEALTH = ['excellent', 'fair', 'good', 'poor'], say = words => console.log(words), of = rows => rows.map(row => row.health);
const where = port => ({ host: 'localhost', port: +port, user: 'ada', database: 'study', password });
const LIST = 'SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)', CONSTANTS = "SELECT 42 AS i, 1.5::DOUBLE AS d, true AS b, 'ä\"' AS t, NULL::BIGINT AS none";
const DECLARE = `DECLARE some CURSOR FOR ${counted}`, FETCH = 'FETCH 3 FROM some';
async function tenAtOnce(ask) {  // four at a time, as the server allows an account
  let found = [];
  for (const number of [4, 4, 2]) found = found.concat(await Promise.all(Array.from({ length: number }, ask)));
  assert.deepEqual(found.map(of), Array(10).fill(HEALTH));
}
async function drained(stream) { const rows = []; for await (const row of stream) rows.push(row); return rows }
const known = row => assert.deepEqual([+row.i, row.d, row.b, row.t, row.none], [42, 1.5, true, 'ä"', null]);

const clients = {
  async 'postgres'() {
    const postgres = require('postgres');
    await assert.rejects(postgres({ ...where(scripted), password: 'wrong', fetch_types: false })`ROWS 1`, { code: '28P01' });
    let sql = postgres({ ...where(scripted), ssl: { rejectUnauthorized: false }, fetch_types: false, max: 1 });
    const rows = await sql.unsafe('ALL TYPES');
    assert.equal(rows[0].i, '42'); assert.equal(rows[0].h, '1' + '0'.repeat(30)); assert.equal(rows[0].b, true); assert.equal(rows[1].t, null);
    say('password values');
    for (const i of [3, 4]) assert.equal((await sql`ECHO ${i}::BIGINT`)[0].c1, String(i));
    say('parameters prepared');
    assert.deepEqual((await sql`ROWS 1`.describe()).columns.map(each => each.name), ['n']); say('columns');
    let parts = 0; await sql`ROWS 120`.cursor(50, () => { parts++ }); assert.equal(parts, 3); say('portions');
    await assert.rejects(sql`BOGUS`, { code: '42601', hint: 'a hint', position: '1' }); say('place');
    await assert.rejects(sql.begin(async own => { await own`FAIL` })); assert.equal((await sql.begin(own => own`ROWS 1`))[0].n, '0'); say('transactions');
    const asked = sql`SLEEP 20`; setTimeout(() => asked.cancel(), 500); await assert.rejects(asked.execute(), { code: '57014' }); say('cancel');
    await sql.end();
    const heard = []; sql = postgres({ ...where(real), max: 10, onnotice: told => heard.push(told.message) });
    await tenAtOnce(() => sql.unsafe(counted)); say('pools'); assert(heard.some(told => told.startsWith('cost'))); say('notices');
    assert.deepEqual((await sql.unsafe(ends)).columns.map(each => each.name), ['n', 'n_low', 'n_high']); say('ends');
    let copied = ''; for await (const part of await sql.unsafe(`COPY (${counted}) TO STDOUT CSV HEADER`).readable()) copied += part;
    assert(copied.startsWith('health,n\nexcellent,')); say('copied');
    assert((await sql`SELECT table_name FROM information_schema.tables WHERE table_schema = ${'public'}`).some(row => row.table_name === 'people')); say('tables');
    await sql.begin(async own => { await own.unsafe(DECLARE); assert.equal((await own.unsafe(FETCH)).length, 3) }); say('cursors');
    assert.equal((await sql`SELECT COUNT(*) AS n FROM people WHERE health = ANY(${['good', 'fair']})`).length, 1);
    assert.equal((await sql`SELECT COUNT(*) AS n FROM people WHERE site IN ${sql([1, 2])}`).length, 1); say('arrays');
    await sql.end();
  },
  async 'pg-promise'() {
    const heard = [], pgp = require('pg-promise')({ connect: ({ client }) => client.on('notice', told => heard.push(told.message)), noWarnings: true });
    await assert.rejects(pgp({ ...where(scripted), password: 'wrong' }).any('ROWS 1'), { code: '28P01' });
    let db = pgp({ ...where(scripted), ssl: { rejectUnauthorized: false } });
    const rows = await db.any('ALL TYPES'); assert.equal(rows[0].i, '42'); assert.equal(rows[1].t, null); say('password values');
    const { PreparedStatement, ParameterizedQuery } = pgp;
    for (const i of ['3', '4']) assert.equal((await db.one(new PreparedStatement({ name: 'echo', text: 'ECHO $1::BIGINT', values: [i] }))).c1, i);
    assert.equal((await db.one(new ParameterizedQuery({ text: 'ECHO $1::VARCHAR', values: ['ä'] }))).c1, 'ä'); say('parameters prepared');
    await assert.rejects(db.any('BOGUS'), { code: '42601', hint: 'a hint', position: '1' }); say('place');
    await assert.rejects(db.tx(own => own.any('FAIL'))); assert.equal((await db.tx(own => own.one('ROWS 1'))).n, '0'); say('transactions');
    const Query = require('pg-query-stream'); let n = 0;
    await db.stream(new Query('ROWS 120', [], { batchSize: 50 }), stream => stream.on('data', () => { n++ })); assert.equal(n, 120); say('portions');
    db = pgp({ ...where(real), max: 10 });
    await tenAtOnce(() => db.any(counted)); assert(heard.some(told => told.startsWith('cost'))); say('pools notices');
    assert.deepEqual((await db.result(ends)).fields.map(each => each.name), ['n', 'n_low', 'n_high']); say('ends');
    assert.equal((await db.any("SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename = $1", 'people')).length, 1); say('tables');
    await db.tx(async own => { await own.none(DECLARE); assert.equal((await own.any(FETCH)).length, 3) }); say('cursors');
    await db.one(LIST, [['good', 'fair']]); await db.one('SELECT COUNT(*) AS n FROM people WHERE site IN ($1:csv)', [[1, 2]]); say('arrays');
    pgp.end();
  },
  async 'knex'() {
    const knex = require('knex'), to = (port, more) => knex({ client: 'pg', connection: { ...where(port), ...more }, pool: { min: 0, max: 10 }, log: { warn() {} } });
    const wrong = to(real, { password: 'wrong' }); await assert.rejects(wrong.raw('SELECT 1'), { code: '28P01' }); await wrong.destroy();
    const db = to(real); known((await db.raw(CONSTANTS)).rows[0]); say('password values');
    await assert.rejects(db.raw('SELECT COUNT(* FROM people'), { code: '42601', position: '13' }); say('place');
    const byHealth = () => db('people').select('health').count('* as n').groupBy('health').orderBy('health');
    await tenAtOnce(byHealth); say('pools');
    assert.deepEqual((await db.raw(ends)).fields.map(each => each.name), ['n', 'n_low', 'n_high']); say('ends');
    assert((await db.schema.hasTable('people')) && (await db('people').columnInfo()).health.type === 'text'); say('tables');
    assert.deepEqual(of(await drained(byHealth().stream({ batchSize: 2 }))), HEALTH); say('portions');
    await db.transaction(async own => { await own.raw(DECLARE); assert.equal((await own.raw(FETCH)).rows.length, 3) }); say('cursors transactions');
    await db('people').count('* as n').whereIn('site', [1, 2]); await db.raw(LIST.replace('$1', '?'), [['good', 'fair']]); say('parameters arrays');
    await db.destroy();
  },
  async 'sequelize'() {
    const { Sequelize, DataTypes, QueryTypes } = require('sequelize');
    const to = (port, more = {}) => new Sequelize('study', 'ada', more.given || password, { host: 'localhost', port: +port, dialect: 'postgres', logging: false, pool: { max: 10 }, ...more });
    await assert.rejects(to(real, { given: 'wrong' }).authenticate(), /password authentication failed/);
    const db = to(real); await db.authenticate(); say('password');
    known((await db.query(CONSTANTS, { type: QueryTypes.SELECT }))[0]); say('values');
    assert.equal((await db.query(LIST, { bind: [['good', 'fair']], type: QueryTypes.SELECT })).length, 1); say('parameters');
    const People = db.define('people', { person_id: { type: DataTypes.BIGINT, primaryKey: true }, health: DataTypes.TEXT, site: DataTypes.BIGINT }, { timestamps: false, freezeTableName: true });
    const byHealth = () => People.findAll({ attributes: ['health', [db.fn('COUNT', db.literal('*')), 'n']], group: 'health', order: ['health'], raw: true });
    await tenAtOnce(byHealth); say('pools');
    assert.deepEqual(Object.keys((await db.query(ends, { type: QueryTypes.SELECT }))[0]), ['n', 'n_low', 'n_high']); say('ends');
    await assert.rejects(db.query('SELECT COUNT(* FROM people'), fault => fault.parent.position === '13'); say('place');
    assert(await People.count({ where: { site: [1, 2] } }) > 0); say('arrays');
    await db.transaction(async transaction => { await db.query(DECLARE, { transaction }); assert.equal((await db.query(FETCH, { transaction }))[0].length, 3) });
    say('cursors transactions');
    const seen = db.getQueryInterface(); assert((await seen.showAllTables()).some(each => (each.tableName || each) === 'people'));
    assert.equal((await seen.describeTable('people')).health.type, 'TEXT'); say('tables');
    await db.close();
  },
  async 'typeorm'() {
    require('reflect-metadata');
    const { DataSource, EntitySchema } = require('typeorm');
    const People = new EntitySchema({ name: 'people', columns: { person_id: { type: 'bigint', primary: true }, health: { type: 'text' }, site: { type: 'bigint' } } });
    const to = given => { const { user, ...rest } = where(real); return new DataSource({ type: 'postgres', ...rest, password: given, username: user, poolSize: 10, entities: [People] }) };
    await assert.rejects(to('wrong').initialize(), { code: '28P01' });
    const db = to(password);
    await db.initialize(); say('password');
    known((await db.query(CONSTANTS))[0]); say('values');
    await db.query(LIST, [['good', 'fair']]); say('parameters');
    const byHealth = () => db.getRepository('people').createQueryBuilder('p').select('p.health', 'health').addSelect('COUNT(*)', 'n').groupBy('p.health').orderBy('p.health');
    await tenAtOnce(() => byHealth().getRawMany()); say('pools');
    assert.deepEqual(Object.keys((await db.query(ends))[0]), ['n', 'n_low', 'n_high']); say('ends');
    await assert.rejects(db.query('SELECT COUNT(* FROM people'), fault => fault.driverError.position === '13'); say('place');
    await db.getRepository('people').createQueryBuilder('p').select('COUNT(*)', 'n').where('p.site IN (:...sites)', { sites: [1, 2] }).getRawOne(); say('arrays');
    assert.equal((await drained(await byHealth().stream())).length, 4); say('portions');
    await db.transaction(async own => { await own.query(DECLARE); assert.equal((await own.query(FETCH)).length, 3) }); say('cursors transactions');
    const runner = db.createQueryRunner(), table = await runner.getTable('public.people');
    assert.equal(table.findColumnByName('health').type, 'text'); assert(table.primaryColumns[0].name === 'person_id'); say('tables');
    await runner.release(); await db.destroy();
  },
  async 'drizzle-orm'() {
    const { Pool } = require('pg'), { drizzle } = require('drizzle-orm/node-postgres'), { pgTable, bigint, text } = require('drizzle-orm/pg-core');
    const { sql, inArray, count } = require('drizzle-orm');
    const people = pgTable('people', { person_id: bigint({ mode: 'number' }).primaryKey(), health: text(), site: bigint({ mode: 'number' }) });
    await assert.rejects(drizzle(new Pool({ ...where(real), password: 'wrong' })).execute(sql`SELECT 1`), fault => (fault.cause || fault).code === '28P01');
    const pool = new Pool({ ...where(real), max: 10 }), db = drizzle(pool);
    known((await db.execute(sql.raw(CONSTANTS))).rows[0]); say('password values');
    const byHealth = () => db.select({ health: people.health, n: count() }).from(people).groupBy(people.health).orderBy(people.health);
    await tenAtOnce(() => byHealth()); say('pools');
    const made = db.select({ n: count() }).from(people).where(inArray(people.site, [sql.placeholder('a'), sql.placeholder('b')])).prepare('of_sites');
    for (let i = 0; i < 2; i++) assert((await made.execute({ a: 1, b: 2 }))[0].n > 0); say('prepared parameters');
    await db.select({ n: count() }).from(people).where(inArray(people.site, [1, 2]));
    await db.select({ n: count() }).from(people).where(sql`${people.health} = ANY(${sql.param(['good', 'fair'])})`); say('arrays');
    assert.deepEqual((await db.execute(sql.raw(ends))).fields.map(each => each.name), ['n', 'n_low', 'n_high']); say('ends');
    await assert.rejects(db.execute(sql`SELECT COUNT(* FROM people`), fault => (fault.cause || fault).position === '13'); say('place');
    await db.transaction(async own => { await own.execute(sql.raw(DECLARE)); assert.equal((await own.execute(sql.raw(FETCH))).rows.length, 3) }); say('cursors transactions');
    await pool.end();
  },
  async 'kysely'() {
    const { Pool } = require('pg'), { Kysely, PostgresDialect, sql } = require('kysely'), Cursor = require('pg-cursor');
    const to = more => new Kysely({ dialect: new PostgresDialect({ pool: new Pool({ ...where(real), max: 10, ...more }), cursor: Cursor }) });
    await assert.rejects(sql`SELECT 1`.execute(to({ password: 'wrong' })), { code: '28P01' });
    const db = to({}); known((await sql.raw(CONSTANTS).execute(db)).rows[0]); say('password values');
    const byHealth = db.selectFrom('people').select(['health', own => own.fn.countAll().as('n')]).groupBy('health').orderBy('health');
    await tenAtOnce(() => byHealth.execute()); say('pools');
    const some = db.selectFrom('people').select(own => own.fn.countAll().as('n'));
    await some.where('site', 'in', [1, 2]).execute(); say('parameters');
    await some.where('health', '=', own => own.fn.any(own.val(['good', 'fair']))).execute(); say('arrays');
    assert.deepEqual(Object.keys((await sql.raw(ends).execute(db)).rows[0]), ['n', 'n_low', 'n_high']); say('ends');
    await assert.rejects(sql`SELECT COUNT(* FROM people`.execute(db), { position: '13' }); say('place');
    assert.equal((await drained(byHealth.stream(2))).length, 4); say('portions');
    await db.transaction().execute(async own => { await sql.raw(DECLARE).execute(own); assert.equal((await sql.raw(FETCH).execute(own)).rows.length, 3) }); say('cursors transactions');
    const tables = await db.introspection.getTables(); assert(tables.find(each => each.name === 'people').columns.some(each => each.name === 'health')); say('tables');
    await db.destroy();
  },
};
clients[name]().catch(fault => { console.error(fault); process.exit(1) });
