const { Client, Pool } = require('pg'), assert = require('assert'), [scripted, real, password, counted, ends] = process.argv.slice(2);
async function to(port, given, ssl) { const con = new Client({ host: 'localhost', port, user: 'ada', database: 'study', password: given, ssl }); await con.connect(); return con }
(async () => {
  await assert.rejects(to(scripted, 'wrong'), { code: '28P01' });
  let con = await to(scripted, password, { rejectUnauthorized: false });
  console.log('password');
  let rows = (await con.query('ALL TYPES')).rows;
  assert.equal(rows[0].i, '42'); assert.equal(rows[0].h, '1' + '0'.repeat(30)); assert.equal(rows[0].b, true); assert.equal(rows[1].t, null);
  console.log('values');
  for (const i of ['3', '4']) assert.equal((await con.query({ name: 'echo', text: 'ECHO $1::BIGINT', values: [i] })).rows[0].c1, i);
  console.log('parameters prepared');
  assert.equal((await con.query({ text: 'ECHO $1::DOUBLE', values: [2.5], binary: true })).rows[0].c1, 2.5);
  console.log('binary');
  assert.equal((await con.query({ text: 'ROWS 120', rows: 50 })).rows.length, 120);
  console.log('portions');
  await assert.rejects(con.query('BOGUS'), { code: '42601', hint: 'a hint', position: '1' });
  console.log('place');
  await con.query('BEGIN'); await assert.rejects(con.query('FAIL')); await con.query('ROLLBACK'); await con.query('ROWS 1');
  console.log('transactions');
  await con.end();
  con = await to(real, password); const heard = []; con.on('notice', told => heard.push(told.message));
  assert.equal((await con.query(counted)).rows[0].health, 'excellent'); assert(heard[0].startsWith('cost'));
  console.log('notices');
  assert.deepEqual((await con.query(ends)).fields.map(each => each.name), ['n', 'n_low', 'n_high']);
  console.log('ends');
  assert((await con.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).rows.some(row => row.tablename === 'people'));
  console.log('tables');
  const pool = new Pool({ host: 'localhost', port: real, user: 'ada', database: 'study', password, max: 10 }), held = await Promise.all(Array.from({ length: 10 }, () => pool.connect()));
  for (const some of [held.slice(0, 4), held.slice(4, 8), held.slice(8)])  // as many at once as the server lets an account
    for (const answer of await Promise.all(some.map(each => each.query(counted)))) assert.equal(answer.rows[3].health, 'poor');
  held.forEach(each => each.release()); await pool.end();
  console.log('pools');
  await con.query('BEGIN'); await con.query(`DECLARE some CURSOR FOR ${counted}`); assert.equal((await con.query('FETCH 3 FROM some')).rows.length, 3); await con.query('COMMIT');
  console.log('cursors');
  await con.query('SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)', [['good', 'fair']]); await con.query('SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)', [1, 2]);
  console.log('arrays');
  await con.end();
})().catch(fault => { console.error(fault); process.exit(1) });
