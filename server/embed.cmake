# Writes C source with the files of the dashboard in it: struct asset of assets.h.
#   cmake -DOUTPUT=asset_files.c "-DFILES=a;b;c" -P embed.cmake
# "index.html" is served at "/", "openapi.yaml" at "/openapi.yaml", others below "/assets/".

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_yaml "application/yaml")

set(paths)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  get_filename_component(ending ${file} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "${file}: no content type is known for .${ending}")
  endif()
  if(name STREQUAL index.html)
    set(path "/")
  elseif(name STREQUAL openapi.yaml)
    set(path "/openapi.yaml")
  else()
    set(path "/assets/${name}")
  endif()
  list(APPEND paths "${path}|${ending}|${file}")
endforeach()
list(SORT paths)

set(arrays "")
set(table "")
set(number 0)
foreach(entry ${paths})
  string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" _ "${entry}")
  set(path ${CMAKE_MATCH_1})
  set(type "${type_${CMAKE_MATCH_2}}")
  set(file ${CMAKE_MATCH_3})
  file(SHA256 ${file} digest)
  string(SUBSTRING ${digest} 0 32 digest)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................................)" "\\1\n    " bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "/* ${path} */\nstatic const unsigned char file_${number}[] = {\n    ${bytes}\n};\n\n")
  string(APPEND table "    { \"${path}\", \"${type}\", \"\\\"${digest}\\\"\", file_${number},\n      sizeof file_${number} },\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT}.new "/* Written by embed.cmake from server/web/. */
#include \"assets.h\"

${arrays}const struct asset asset_files[] = {
${table}};

const size_t asset_files_count = sizeof asset_files / sizeof *asset_files;
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
