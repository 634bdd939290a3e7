<?xml version="1.0"?>
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html"/>
  <xsl:key name="by-group" match="item" use="@group"/>
  <xsl:template match="/">
    <html><body>
      <xsl:for-each select="catalogue/item[generate-id() = generate-id(key('by-group', @group)[1])]">
        <xsl:sort select="@group"/>
        <h1><xsl:value-of select="@group"/></h1>
        <p><xsl:value-of select="count(key('by-group', @group))"/>: <xsl:value-of select="sum(key('by-group', @group)/price)"/></p>
        <table>
          <xsl:for-each select="key('by-group', @group)">
            <xsl:sort select="price" data-type="number" order="descending"/>
            <xsl:apply-templates select="."/>
          </xsl:for-each>
        </table>
      </xsl:for-each>
    </body></html>
  </xsl:template>
  <xsl:template match="item">
    <tr>
      <td><xsl:value-of select="translate(name, 'abcdefghij', 'ABCDEFGHIJ')"/></td>
      <td><xsl:if test="stock &lt; 10 and contains(note, 'marsh')">!</xsl:if><xsl:value-of select="price * 1.19"/></td>
      <td><xsl:apply-templates select="note[@lang = 'en']"/></td>
    </tr>
  </xsl:template>
  <xsl:template match="note"><i><xsl:value-of select="normalize-space(.)"/></i></xsl:template>
</xsl:stylesheet>
