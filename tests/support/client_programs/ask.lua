-- What LuaSQL can do.
local driver = require("luasql.postgres").postgres()
local scripted, real, password, counted, ends = table.unpack(arg)
local function to(port, given, more) return driver:connect("host=localhost port=" .. port .. " user=ada password='" .. given .. "' dbname=study " .. (more or "")) end
local function rows(con, text)
  local found, cursor = {}, assert(con:execute(text))
  local row = cursor:fetch({}, "a")
  while row do found[#found + 1] = row; row = cursor:fetch({}, "a") end
  return found, cursor
end
local function same(found, wanted) if found ~= wanted then error(tostring(found) .. " for " .. tostring(wanted), 2) end end
local con, said = to(scripted, "wrong")
assert(con == nil and said:find("password authentication failed"), said)
con = assert(to(scripted, password, "sslmode=require channel_binding=require"))
print("password binding")
local found = rows(con, "ALL TYPES")
same(found[1].i, "42"); same(found[1].t, "ä\"'"); same(found[1].at, "2024-02-29 12:30:01.00025"); same(found[2].i, nil)
print("values")
con, said = con, select(2, con:execute("BOGUS"))
assert(said:find("LINE 1: BOGUS\n        ^", 1, true) and said:find("a hint"), said)
print("place")
con:setautocommit(false); assert(not con:execute("FAIL")); con:rollback(); same(rows(con, "ROWS 1")[1].n, "0"); con:commit()
print("transactions")
local pool = {}
for i = 1, 10 do pool[i] = assert(to(real, password)) end
for _, each in ipairs(pool) do same(#rows(each, counted), 4) end
print("pools")
con = pool[1]
local cursor = assert(con:execute(ends)); same(table.concat(cursor:getcolnames(), " "), "n n_low n_high"); cursor:close()
print("ends")
con:execute("BEGIN"); con:execute("DECLARE some CURSOR FOR " .. counted); same(#rows(con, "FETCH 3 FROM some"), 3); con:execute("COMMIT")
print("cursors")
same(rows(con, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename = 'people'")[1].tablename, "people")
print("tables")
